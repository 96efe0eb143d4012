"""What each operator says of the inputs that reach it, and what it hands on: a table for each kind."""
