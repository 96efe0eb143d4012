"""Strength of the inputs: whether its numbers can be true, whether the model can have one, and whether it is enough.

A worker says how many wrong models the inputs would have caught. It may run the model's own code, so its numbers are
checked against each other and against the model: only a model that passed has a strength.
"""

from __future__ import annotations
