"""A part of the graph as a model of its own."""
