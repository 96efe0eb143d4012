"""What every session of ONNX Runtime has in common: its options, its errors, and the values that go in and out."""

from onnx_gate.runtime.sessions import load_failed, runtime_words, session_options, without_places
from onnx_gate.runtime.values import plain_value, run_session

__all__ = ["load_failed", "plain_value", "run_session", "runtime_words", "session_options", "without_places"]
