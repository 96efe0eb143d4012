"""What is found out of a divergence: where it begins, what mends it, and how it looks."""

from __future__ import annotations
