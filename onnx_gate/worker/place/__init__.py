"""Where in a graph a divergence begins, and which exchange makes it go."""

from __future__ import annotations
