"""Client and middleware for Penstock, a distributed rate limiter."""

from ._client import AsyncClient, Call, Client
from ._deny_cache import DenyCache
from ._errors import InvalidRequest, NoReservation, PenstockError, ReservationClosed, Unavailable
from ._verdict import Limit, Verdict

__all__ = [
    "AsyncClient",
    "Call",
    "Client",
    "DenyCache",
    "InvalidRequest",
    "Limit",
    "NoReservation",
    "PenstockError",
    "ReservationClosed",
    "Unavailable",
    "Verdict",
]
