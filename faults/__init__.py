"""Whole runs of the gate with a fault in each: whatever breaks, no verdict is wrong. The table is docs/faults.md."""
