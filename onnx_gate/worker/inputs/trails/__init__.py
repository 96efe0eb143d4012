"""How values within a model came from its inputs, and what follows for the inputs; the same for every framework."""
