"""What builds the docs and makes releases; no part of the package."""
