"""Faults as they happen to people, put into models drawn at random: does triage name each? docs/triage-models.md."""
