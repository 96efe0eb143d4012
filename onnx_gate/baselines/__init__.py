"""The earlier run that a run is compared with: found, read as a stranger's, and never a reason to fail."""
