"""Facts that a fitted estimator knows about its inputs: which column reaches which part, and what the part learnt."""

from __future__ import annotations
