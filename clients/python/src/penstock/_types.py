"""Generated from docs/openapi.json by make generate. Do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Limit:
    rule: str = ""
    algorithm: str = "fixed_window"
    limit: int = 0
    #: Of a calendar limit, the length of the current period; of a concurrency limit, its leases' time to live.
    window_ms: int = 0
    #: This limit by itself lets the call pass.
    allowed: bool = False
    remaining: int = 0
    #: 0 if allowed, null if waiting will not help.
    retry_after_ms: Optional[int] = 0
    #: When the caller is as if never seen.
    reset_after_ms: int = 0
    #: May exceed the limit.
    used: int = 0
    #: The limit's name in RateLimit headers: the rule's, or rule:1m if the rule has several.
    policy: str = ""
    #: How much passes per window; the capacity of a bucket is limit.
    count: int = 0
    #: Of a leaky bucket.
    delay_ms: int = 0
    #: The rule is only tried: it had no say.
    shadow: bool = False
    #: The rule has banned the caller.
    banned: bool = False


@dataclass(frozen=True)
class Verdict:
    allowed: bool = False
    #: The one that decided, whose numbers follow: of the limits that deny the one with the longest wait, else the
    #: one with the least left. Empty, and the numbers 0, if no limit had a say.
    rule: str = ""
    reason: str = "ok"
    #: What it was decided on: the shared state, permits taken of it earlier, what this node has counted by itself,
    #: or nothing: by a failure policy that lets it pass or denies it.
    quality: str = "exact"
    limit: int = 0
    remaining: int = 0
    #: 0 if allowed, null if waiting will not help.
    retry_after_ms: Optional[int] = 0
    #: When the caller is as if never seen.
    reset_after_ms: int = 0
    #: How long the call is to be held before it goes on.
    delay_ms: int = 0
    #: The request is a duplicate of an allowed one, and some rule charged nothing for it. It takes its own permits
    #: of concurrency limits, or is denied.
    duplicate: bool = False
    #: All that applied.
    limits: tuple[Limit, ...] = ()
    #: Names what this request reserved. Conclude it when the request is over. A duplicate reserves only permits of
    #: concurrency limits.
    reservation: Optional[str] = None
    #: How long `reservation` stays open unless it is renewed: of several rules, the shortest.
    reserved_for_ms: Optional[int] = None
    #: Of a duplicate, allowed or denied: names what the original request reserved. The original concludes it and may
    #: still be running. A client that lost the reply to the original takes over from it: it releases `reservation`,
    #: if there is one, which is only a second permit, and runs and concludes the request under this name. Everyone
    #: else leaves it alone.
    original_reservation: Optional[str] = None
    #: How long the caller is banned or blocked.
    banned_for_ms: int = 0
    rules_version: int = 0
    #: In a batch: why this call could not be decided.
    error: Optional[str] = None
