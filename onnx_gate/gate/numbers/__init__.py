"""Whether the numbers of a result can all be true: recomputed from each other, beyond what rounding explains.

The run refuses what can't be, and so do `report` and `merge`. A rule may therefore only refuse what no comparison in
`compare/` can come to: a false alarm makes an error of an honest model.
"""
