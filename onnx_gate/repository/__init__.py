"""What may be loaded at all: sources that run code of their own, and what such code could take."""

from __future__ import annotations
