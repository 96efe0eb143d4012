"""Wrong models of the judged one, and how many of them its feeds would catch."""

from __future__ import annotations
