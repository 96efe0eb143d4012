"""Precision variants: models of lower precision, made of a converted one with the tools that people use for it."""

from __future__ import annotations
