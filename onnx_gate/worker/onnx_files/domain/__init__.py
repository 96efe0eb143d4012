"""What the graph of an .onnx knows of the values of its inputs: followed back from all that is constant in it."""
