"""One manifest on many machines: a plan of who judges what, and one result of what they found."""

from __future__ import annotations
