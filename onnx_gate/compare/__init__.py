"""Tolerance, metrics and labels → OutputDiff."""
