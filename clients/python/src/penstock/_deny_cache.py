"""Denials that are answered without asking the service."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Callable, Hashable, Optional

from ._verdict import Verdict


class DenyCache:
    """Keeps denials until they may be retried.

    A denial says when the same request passes at the earliest, so the service needs not be asked before. Entries live
    for ``max_age`` seconds at most: an operator may reset a key or change the rules in the meantime.
    """

    def __init__(self, size: int = 10_000, max_age: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._max_age, self._clock = size, max_age, clock
        self._entries: OrderedDict[Hashable, tuple[float, Verdict]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Optional[Verdict]:
        """Return the denial of a request, with what is left of its wait."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            stored, verdict = entry
            passed = (self._clock() - stored) * 1000
            wait = verdict.retry_after_ms
            if passed >= self._max_age * 1000 or (wait is not None and passed >= wait):
                del self._entries[key]
                return None
        if wait is None:
            return verdict
        limits = tuple(
            replace(
                limit,
                retry_after_ms=limit.retry_after_ms and max(1, limit.retry_after_ms - int(passed)),
                reset_after_ms=max(0, limit.reset_after_ms - int(passed)),
            )
            for limit in verdict.limits
        )
        return replace(
            verdict,
            retry_after_ms=max(1, wait - int(passed)),
            reset_after_ms=max(0, verdict.reset_after_ms - int(passed)),
            limits=limits,
        )

    def put(self, key: Hashable, verdict: Verdict) -> None:
        """Keep a denial by a limit or a ban."""
        if verdict.allowed or verdict.reason not in ("over_limit", "banned") or verdict.quality not in ("exact", "leased"):
            return
        if any(limit.algorithm == "concurrency" and not limit.allowed for limit in verdict.limits):
            return  # a permit may be free at any moment
        with self._lock:
            self._entries[key] = (self._clock(), verdict)
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
