"""What each operator says about the inputs that reach it, and what it passes on: one table per kind of operator."""
