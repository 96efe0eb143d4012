"""A run: which models, in which order, and what their verdicts are."""
