"""The folder that shows a failure again: the model, the rows, and plain scripts that run them."""
