"""Thousands of broken inputs: code that reads them may only give a verdict or one of its own errors."""
