"""Finds the rows of a divergence: which fail, which are the worst, and what the failing rows have in common."""
