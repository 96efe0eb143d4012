"""What is inside a PyTorch source: values of its parts, and weights that exporters fold."""
