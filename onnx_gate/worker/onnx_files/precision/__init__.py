"""Files of lower precision, and files made wider."""
