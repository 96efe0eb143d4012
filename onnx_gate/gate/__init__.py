"""A run: which models it judges, in which order, and their verdicts."""
