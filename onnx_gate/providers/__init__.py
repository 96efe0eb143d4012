"""Execution providers: is there a device, did the session really get it, and what did it answer."""
