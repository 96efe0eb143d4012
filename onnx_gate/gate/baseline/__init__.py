"""A run compared with an earlier one: what changed, and what else may explain it. No verdict depends on this."""
