"""What every session of ONNX Runtime has in common: its options, its errors, and the values that go in and out."""

from __future__ import annotations
