"""`onnx-gate calibrate`: from how large honest rounding is to tolerances, printed and put into the manifest."""
