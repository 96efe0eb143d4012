"""Models that are wrong in a place that numbers drawn blindly don't reach, and their healthy look-alikes."""
