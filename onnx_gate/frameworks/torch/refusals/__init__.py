"""Reasons why an export failed: as text, with the user's own line, and what to write instead."""
