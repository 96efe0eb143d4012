"""Frameworks: what is known of each without importing it (`registry`), and its plug-in, for workers only (`plugin`)."""

from __future__ import annotations
