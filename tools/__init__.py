"""Tools to build the docs and make releases; not part of the package."""
