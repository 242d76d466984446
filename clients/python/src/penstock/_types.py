"""Generated from docs/openapi.json by make generate. Do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Limit:
    rule: str = ""
    algorithm: str = "fixed_window"
    limit: int = 0
    #: For a calendar limit, the length of the current period; for a concurrency limit, the time to live of its
    #: permits.
    window_ms: int = 0
    #: Whether this limit alone allows the request.
    allowed: bool = False
    remaining: int = 0
    #: 0 if allowed, null if waiting does not help.
    retry_after_ms: Optional[int] = 0
    #: Time until the client's whole limit is available again.
    reset_after_ms: int = 0
    #: May exceed the limit.
    used: int = 0
    #: The name of the limit in RateLimit headers: the rule name, or rule:1m if the rule has several limits.
    policy: str = ""
    #: How much is allowed per window. For buckets, `limit` is the capacity.
    count: int = 0
    #: How a token bucket is refilled. interval: all at once, at every multiple of the window. continuous if not
    #: given: token by token.
    refill: str = "continuous"
    #: The delay by a leaky bucket.
    delay_ms: int = 0
    #: The rule is in shadow mode and did not affect the verdict.
    shadow: bool = False
    #: The rule has banned the client.
    banned: bool = False


@dataclass(frozen=True)
class Verdict:
    allowed: bool = False
    #: The rule that decided. The other fields describe its limit: of the limits that deny, the one with the longest
    #: wait; otherwise the one with the least remaining. Empty, with all numbers 0, if no limit applied.
    rule: str = ""
    reason: str = "ok"
    #: What the verdict rests on. exact: the store; leased: quota taken ahead from the store; local: this node's own
    #: counters; open, closed: no counters, because the fallback allows or denies.
    quality: str = "exact"
    limit: int = 0
    remaining: int = 0
    #: 0 if allowed, null if waiting does not help.
    retry_after_ms: Optional[int] = 0
    #: Time until the client's whole limit is available again.
    reset_after_ms: int = 0
    #: How long to delay the request before it proceeds.
    delay_ms: int = 0
    #: The request is a duplicate of an allowed one, and at least one rule did not charge it. It still needs its own
    #: permits of concurrency limits.
    duplicate: bool = False
    #: All limits that applied.
    limits: tuple[Limit, ...] = ()
    #: Identifies what this request reserved. Settle or release it when the request has finished. A duplicate
    #: reserves only permits of concurrency limits.
    reservation: Optional[str] = None
    #: How long `reservation` stays open unless it is renewed; with several rules, the shortest time.
    reserved_for_ms: Optional[int] = None
    #: For a duplicate, allowed or denied: the reservation of the original request, which may still be running and
    #: settles it. Use it only if the response to the original was lost: release `reservation`, if present (it is
    #: only a second permit), then run the request and settle this reservation instead.
    original_reservation: Optional[str] = None
    #: How long the client is banned or blocked.
    banned_for_ms: int = 0
    rules_version: int = 0
    #: In a batch: why this request could not be decided.
    error: Optional[str] = None
