"""Runs whole families of models through the gate: long runs whose tables are checked in under docs/."""
