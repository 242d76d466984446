"""How a request ended, for rules that charge by the response."""

from __future__ import annotations

import time
from typing import Any, Iterable, Optional, Sequence


class Outcome:
    """Collects what a report has: the status, how long the response took to begin, its size, and named headers.

    ``bytes`` is None if the size is not known: rules that charge bytes keep their estimate.
    """

    def __init__(self, names: Sequence[str], method: str) -> None:
        self._names = {name.lower(): name for name in names}
        self._has_body = method != "HEAD"
        self._started = time.monotonic()
        self._report: dict[str, Any] = {}
        self.bytes: Optional[int] = 0

    def begin(self, status: int, headers: Iterable[tuple[str, str]] = (), replaces: bool = False) -> None:
        """Note the response, unless another has begun that it does not replace. Of a header that is sent twice the
        first value counts."""
        if self._report and not replaces:
            return
        chosen: dict[str, str] = {}
        for name, value in headers:
            wanted = self._names.get(name.lower())
            if wanted is not None:
                chosen.setdefault(wanted, value)
        self._report = {"status": status, "headers": chosen, "duration_ms": int((time.monotonic() - self._started) * 1000)}

    def fail(self) -> None:
        """Note that the application raised an exception: servers answer 500, unless a response has begun."""
        self.begin(500)

    def count(self, size: int) -> None:
        """Add to the size of the body."""
        if self.bytes is not None and self._has_body:
            self.bytes += size

    def report(self) -> dict[str, Any]:
        """Return the arguments of Client.report. Without a response, how the request ended is not known."""
        if not self._report:
            return {}
        return self._report if self.bytes is None else {**self._report, "bytes": self.bytes}
