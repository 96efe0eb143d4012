"""Puts realistic faults into random models, to see whether triage names each of them: docs/triage-models.md."""
