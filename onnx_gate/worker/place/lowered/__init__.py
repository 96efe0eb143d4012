"""Files of lower precision."""
