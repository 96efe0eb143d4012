"""Makes wrong copies of the judged model, and counts how many of them its feeds would catch."""

from __future__ import annotations
