"""References that travel: made where the source runs, checked byte by byte where it doesn't.

A folder holds one folder a model, named after its id, with an `index.json` that lists every other file in it with its
hash. Folders of several runs make up one by plain copying. What is in them was written by somebody else: nothing is
trusted before it was checked, and nothing is ever unpickled.
"""

from __future__ import annotations
