"""A run beside an earlier one: what changed, and what besides the models may explain it. No verdict depends on it."""
