"""Frameworks: what is known of each without importing it (`registry`), and its plug-in, for workers only (`plugin`)."""
