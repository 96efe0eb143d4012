"""What the graph of an .onnx knows about the values of its inputs, derived from the constants in the graph."""
