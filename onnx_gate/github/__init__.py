"""GitHub Actions: annotations, outputs, step summary."""
