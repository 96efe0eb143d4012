"""What the source says of the values within it: the part of it that a fault belongs to, and the cause that shows."""

from __future__ import annotations
