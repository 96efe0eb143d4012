"""Finds where a divergence begins if the file is right: an optimiser of the runtime, or a kernel of a provider."""

from __future__ import annotations
