"""Findings of earlier runs, for models with unchanged inputs.

Every input of a model (a file, a variable, a version, a key of the manifest) has a name, and a fingerprint that can be
computed again. An entry holds the fingerprints of a run that passed, and what its worker reported. It is used for a
model whose fingerprints are all the same now. The folder may come from anywhere: nothing in it is trusted before it
was checked, and nothing is ever unpickled.
"""

from __future__ import annotations
