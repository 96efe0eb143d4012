"""What an .onnx file declares about itself, and the files that belong to it."""
