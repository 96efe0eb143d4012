"""What a fitted estimator knows of its inputs: which of their columns reaches which part, and what that has learnt."""

from __future__ import annotations
