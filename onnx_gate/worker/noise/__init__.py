"""How large honest rounding is in each output, measured by computing the same in other ways."""
