"""GitHub: annotations, outputs, step summary, the job's log, and the comment on a pull request."""

from __future__ import annotations
