"""The command: arguments and environment in, exit code out."""
