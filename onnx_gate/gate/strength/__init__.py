"""Strength of the inputs: whether it can be true, whether it is to be believed, and whether it is enough.

A worker says how many wrong models the inputs would have caught. Its code may be the model's own, so its numbers are
held against each other, and against the model: only of one that passed is there a strength.
"""

from __future__ import annotations
