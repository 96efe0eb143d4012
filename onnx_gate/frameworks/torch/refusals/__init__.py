"""Why an export failed: in words, with the user's own line, and what to write instead."""
