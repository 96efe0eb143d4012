"""How values inside a model depend on its inputs, and what that says about the inputs; for every framework."""
