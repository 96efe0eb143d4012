"""What differs on rows that only the gate has made, and need not be wrong: told, and no divergence."""
