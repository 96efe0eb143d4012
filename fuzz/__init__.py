"""Broken inputs by the thousand: what reads them answers with a verdict or an error of its own, and nothing else."""
