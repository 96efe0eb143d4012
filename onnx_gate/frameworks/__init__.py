"""Frameworks: data about each one that needs no import of it (`registry`), and its plug-in, for workers (`plugin`)."""

from __future__ import annotations
