"""Data files, seeded generators, batches and edge cases → the feeds for both sides."""

from __future__ import annotations
