"""Models with a fault that random numbers don't reach, and their healthy look-alikes."""
