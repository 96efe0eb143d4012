"""One model is prepared, run on every provider, and compared."""
