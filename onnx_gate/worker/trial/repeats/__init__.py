"""Whether both sides answer the same input twice in the same way."""
