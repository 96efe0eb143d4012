"""Facts about inputs from model parts that all frameworks share, such as trees."""

from __future__ import annotations
