"""Data files, seeded generators, batches and edge cases → the feeds that both sides get."""

from __future__ import annotations
