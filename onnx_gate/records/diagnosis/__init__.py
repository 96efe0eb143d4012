"""What is found out of a divergence: where it begins, and what mends it."""

from __future__ import annotations
