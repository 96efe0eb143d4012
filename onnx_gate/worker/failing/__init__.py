"""The rows of a divergence: which fail, which are the worst, and what those that fail have in common."""
