"""Differences on generated rows that need not be faults: they are reported, but are not a divergence."""
