"""References for other machines: made where the source runs, checked byte by byte and used where it doesn't.

A folder holds one folder per model, named after its id, with an `index.json` that lists every other file in it with its
hash. Folders of several runs can be combined by copying. Somebody else may have written their contents: nothing is
trusted before it was checked, and nothing is ever unpickled.
"""

from __future__ import annotations
