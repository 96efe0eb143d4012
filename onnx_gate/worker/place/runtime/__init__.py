"""Where a divergence begins that is not in the file: one optimiser of the runtime, one kernel of a provider."""

from __future__ import annotations
