"""Whole runs of the gate, each with a fault: whatever breaks, no verdict may be wrong. The table is docs/faults.md."""
