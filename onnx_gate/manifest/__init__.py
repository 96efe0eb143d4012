"""YAML → Manifest, with the place of every problem and "did you mean"."""

from __future__ import annotations
