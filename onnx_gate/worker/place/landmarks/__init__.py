"""Uses the source's own inner values to find the part of the source that a fault belongs to, and its cause."""

from __future__ import annotations
