"""`onnx-gate calibrate`: measure the size of honest rounding, and print tolerances or write them into the manifest."""
