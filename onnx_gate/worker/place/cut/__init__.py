"""Cuts a part out of the graph, as a separate model."""
