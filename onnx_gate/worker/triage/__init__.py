"""Finds the cause of a divergence, and what to do about it."""

from __future__ import annotations
