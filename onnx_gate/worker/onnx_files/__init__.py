"""What an .onnx file says of itself, and the files that belong to it."""
