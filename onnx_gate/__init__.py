"""onnx-gate: stops a converted model from answering differently than its source."""

__version__ = "0.1.0"
