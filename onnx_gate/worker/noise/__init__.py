"""Measures the rounding noise of each output by computing the same values in other ways."""
