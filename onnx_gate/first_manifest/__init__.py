"""`onnx-gate init`: models of a repository → the manifest to begin with."""
