"""Warm fork servers, one process a job; what happens in it reaches the parent as events."""

from __future__ import annotations
