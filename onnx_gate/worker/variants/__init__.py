"""Precision variants: models of lower precision, made from a converted one with the usual tools."""

from __future__ import annotations
