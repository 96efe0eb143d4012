"""What earlier runs found out, for models of which nothing has changed.

Every input of a model (a file, a variable, a version, a key of the manifest) has a name, and a fingerprint that can be
taken again. An entry holds the fingerprints of a run that passed, and what its worker reported; it serves a model whose
fingerprints are all the same now. The folder may come from anywhere: nothing in it is trusted before it was checked,
and nothing is ever unpickled.
"""

from __future__ import annotations
