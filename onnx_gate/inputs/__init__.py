"""Data files, seeded generators, batches and edge cases → the feeds that both sides get."""
