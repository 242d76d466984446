"""What the service decided."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Mapping, Optional


@dataclass(frozen=True)
class Limit:
    """The result of one limit."""

    rule: str = ""
    algorithm: str = ""
    limit: int = 0
    window_ms: int = 0
    allowed: bool = True
    remaining: int = 0
    retry_after_ms: Optional[int] = 0
    reset_after_ms: int = 0
    used: int = 0
    policy: str = ""
    count: int = 0
    delay_ms: int = 0
    shadow: bool = False
    banned: bool = False


@dataclass(frozen=True)
class Verdict:
    """The result of a request over all rules.

    ``retry_after_ms`` is 0 if the request is allowed, and None if it can never pass.
    """

    allowed: bool
    rule: str = ""
    reason: str = "ok"
    quality: str = "exact"
    limit: int = 0
    remaining: int = 0
    retry_after_ms: Optional[int] = 0
    reset_after_ms: int = 0
    delay_ms: int = 0
    duplicate: bool = False
    limits: tuple[Limit, ...] = field(default_factory=tuple)
    reservation: Optional[str] = None
    reserved_for_ms: Optional[int] = None
    original_reservation: Optional[str] = None
    banned_for_ms: int = 0
    rules_version: int = 0
    error: Optional[str] = None

    @property
    def retry_after(self) -> Optional[float]:
        """Seconds to wait before the next try; None if waiting does not help."""
        return None if self.retry_after_ms is None else self.retry_after_ms / 1000

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Verdict":
        """Read a verdict. Fields that are unknown, as of newer services, are ignored."""
        if not isinstance(data.get("allowed"), bool):
            raise ValueError("the answer is not a verdict: it has no field allowed")
        known = {name: data[name] for name in _VERDICT_FIELDS if name in data}
        known["limits"] = tuple(
            Limit(**{name: limit[name] for name in _LIMIT_FIELDS if name in limit}) for limit in data.get("limits") or ()
        )
        return cls(**known)


_VERDICT_FIELDS = frozenset(f.name for f in fields(Verdict))
_LIMIT_FIELDS = frozenset(f.name for f in fields(Limit))
