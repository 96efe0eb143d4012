"""One model: prepared, run on every provider and compared."""
