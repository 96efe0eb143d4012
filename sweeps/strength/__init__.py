"""Measures the strength of inputs of healthy models, and what survivors show of wrong ones: docs/strength-models.md."""
