"""Finds where in a graph a divergence begins, and which exchange removes it."""

from __future__ import annotations
