"""What a run knows of earlier ones: the baseline, what changed since, and the runs before it."""
