"""The earlier run that a run is compared with: it is found, read as untrusted, and never a reason to fail."""
