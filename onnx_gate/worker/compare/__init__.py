"""Tolerance, metrics and labels → OutputDiff."""

from __future__ import annotations
