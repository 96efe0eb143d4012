"""How much of a model's time triage may take."""

from __future__ import annotations

import time

MOST_SECONDS = 60.0
"""After so long, or a quarter of the timeout, no further question is asked."""
LEAST_SECONDS = 20.0
"""For what is said beside the cause: rows that fail, and how large noise is."""
LATEST = 0.75
"""Share of the timeout after which none of that is begun."""


class Share:
    """Ends of the parts of triage, on the clock of `time.monotonic`."""

    def __init__(self, timeout: float, *, started: float) -> None:
        now = time.monotonic()
        self.questions = now + min(MOST_SECONDS, timeout / 4)
        """No question is begun after it."""
        self.search = max(self.questions, (now + started + timeout) / 2)
        """The search for the place ends here, at half of what is left: it may have to convert the source, which takes
        as long as a whole validation."""
        self._latest = started + LATEST * timeout

    @property
    def ends(self) -> tuple[float, float]:
        """Of the questions, and of the search."""
        return self.questions, self.search

    def rest(self) -> float:
        """The end of what comes after the cause: a long search takes nothing from it."""
        return max(self.questions, min(time.monotonic() + LEAST_SECONDS, self._latest))
