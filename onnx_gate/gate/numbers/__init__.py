"""Whether the numbers of a result can all be true: they are recomputed from each other, with room for rounding.

The run, `report` and `merge` refuse impossible numbers. A rule may therefore only refuse what no comparison in
`compare/` can produce: a false alarm turns an honest model into an error.
"""
