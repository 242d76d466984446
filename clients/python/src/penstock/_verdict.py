"""What the service decided."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Mapping, Optional

from . import _types
from ._types import Limit

__all__ = ["Limit", "Verdict"]


@dataclass(frozen=True)
class Verdict(_types.Verdict):
    """The result of a request over all rules.

    ``retry_after_ms`` is 0 if the request is allowed, and None if it can never pass.
    """

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
