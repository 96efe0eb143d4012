"""What parts of models that every framework has, such as trees, know of the values that reach them."""

from __future__ import annotations
