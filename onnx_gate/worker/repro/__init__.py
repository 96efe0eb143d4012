"""The folder that reproduces a failure: the model, the rows, and plain scripts that run them."""
