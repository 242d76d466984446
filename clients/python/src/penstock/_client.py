"""Clients of the decision API, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Hashable, Mapping, Optional, Sequence
from urllib.parse import quote, urlsplit

import httpx

from ._deny_cache import DenyCache
from ._errors import InvalidRequest, NoReservation, PenstockError, ReservationClosed, Unavailable
from ._verdict import Verdict

MAX_BATCH = 1000
MAX_REPLY = 64 << 20


@dataclass(frozen=True)
class Call:
    """A request to decide: what is known of it, and what it costs."""

    attributes: Mapping[str, str]
    cost: int = 1
    domain: str = "default"
    id: Optional[str] = None
    max_delay_ms: int = 0

    def body(self) -> dict[str, Any]:
        """Return what is sent."""
        body: dict[str, Any] = {"domain": self.domain, "attributes": dict(self.attributes), "cost": self.cost}
        if self.id is not None:
            body["id"] = self.id
        if self.max_delay_ms:
            body["max_delay_ms"] = self.max_delay_ms
        return body

    def key(self) -> Optional[Hashable]:
        """Return what the deny cache knows the call by; None: it is not cached."""
        if self.cost == 0 or self.id is not None or self.max_delay_ms:
            return None
        return (self.domain, self.cost, tuple(sorted(self.attributes.items())))


@dataclass
class _Settings:
    base: str
    timeout: float
    on_error: str
    cache: Optional[DenyCache]
    headers: dict[str, str] = field(default_factory=lambda: {"Accept": "application/json"})

    @classmethod
    def checked(cls, url: str, timeout: float, on_error: str, deny_cache: Optional[DenyCache]) -> "_Settings":
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("url is not one like http://penstock:8090")
        if on_error not in ("allow", "deny"):
            raise ValueError(f'on_error is {on_error!r}, not "allow" or "deny"')
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout!r}, not a positive number of seconds")
        return cls(url.rstrip("/"), timeout, on_error, deny_cache)

    def without(self, error: PenstockError) -> Verdict:
        """Return the verdict on a call that the service did not decide."""
        allowed = self.on_error == "allow"
        return Verdict(allowed=allowed, reason="store_error", quality="open" if allowed else "closed", error=str(error))


def _read(status: int, content_type: str, text: bytes, concluding: bool) -> Any:
    """Return the JSON of an answer, or raise what it means. Only a problem of the service's own blames the request."""
    if status == 200:
        try:
            return json.loads(text)
        except ValueError as error:
            raise Unavailable(f"the response is not JSON: {error}") from error
    if content_type != "application/problem+json":
        raise Unavailable(f"got status {status}")
    try:
        problem = json.loads(text)
        detail = str(problem.get("detail") or problem.get("title"))
        for wrong in problem.get("errors") or ():
            detail += f"; {wrong.get('at')}: {wrong.get('message')}"
    except (ValueError, AttributeError) as error:
        raise Unavailable(f"it answered {status} with a body that is not a problem document") from error
    if status in (400, 413):
        raise InvalidRequest(detail)
    if concluding and status == 404:
        raise NoReservation(detail)
    if concluding and status == 409:
        raise ReservationClosed(detail)
    raise Unavailable(f"it answered {status}: {detail}")


def _verdict(data: Any) -> Verdict:
    try:
        return Verdict.from_json(data)
    except (TypeError, ValueError, AttributeError) as error:
        raise Unavailable(f"the answer is not a verdict: {error}") from error


def _verdicts(data: Any, count: int) -> list[Verdict]:
    results = data.get("results") if isinstance(data, dict) else None
    if not isinstance(results, list) or len(results) != count:
        raise Unavailable(f"the answer does not have {count} results")
    return [_verdict(r) for r in results]


def _reservation(body: dict[str, Any], ttl_ms: Optional[int]) -> dict[str, Any]:
    return body if ttl_ms is None else {**body, "ttl_ms": ttl_ms}


def _report(
    reservation: Optional[str],
    request_id: Optional[str],
    status: Optional[int],
    headers: Optional[Mapping[str, str]],
    duration_ms: Optional[int],
    bytes: Optional[int],
) -> dict[str, Any]:
    body = {
        "reservation": reservation,
        "request_id": request_id,
        "status": status,
        "headers": None if headers is None else dict(headers),
        "duration_ms": duration_ms,
        "bytes": bytes,
    }
    return {name: value for name, value in body.items() if value is not None}


def _path(reservation: str, verb: str = "") -> str:
    return "/v1/reservations/" + quote(reservation, safe="") + verb


class Client:
    """A client of the decision API. Threads may share it.

    A request is never sent twice: one whose answer was lost may have been charged. Without an answer within
    ``timeout`` seconds a call is allowed, or denied with ``on_error="deny"``; the verdict's ``error`` says why.
    ``deny_cache=None`` asks the service about every request.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8090",
        *,
        timeout: float = 0.5,
        on_error: str = "allow",
        deny_cache: Optional[DenyCache] = None,
        http: Optional[httpx.Client] = None,
    ) -> None:
        self._settings = _Settings.checked(url, timeout, on_error, deny_cache)
        self._http = http or httpx.Client(trust_env=False, timeout=timeout)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: Any = None, *, concluding: bool = False) -> Any:
        settings = self._settings
        try:
            with self._http.stream(
                method, settings.base + path, json=body, headers=settings.headers, timeout=settings.timeout, follow_redirects=False
            ) as answer:
                text = bytearray()
                for piece in answer.iter_bytes():
                    text += piece
                    if len(text) > MAX_REPLY:
                        raise Unavailable(f"the response has more than {MAX_REPLY} bytes")
                return _read(answer.status_code, answer.headers.get("content-type", ""), bytes(text), concluding)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error

    def check(self, attributes: Mapping[str, str], *, cost: int = 1, domain: str = "default", id: Optional[str] = None, max_delay_ms: int = 0) -> Verdict:
        """Decide a request, and charge it if it is allowed."""
        return self.check_call(Call(attributes, cost, domain, id, max_delay_ms))

    def check_call(self, call: Call) -> Verdict:
        """Decide a call."""
        cache, key = self._settings.cache, call.key()
        if cache is not None and key is not None:
            denied = cache.get(key)
            if denied is not None:
                return denied
        try:
            verdict = _verdict(self._ask("POST", "/v1/check", call.body()))
        except Unavailable as error:
            return self._settings.without(error)
        if cache is not None and key is not None:
            cache.put(key, verdict)
        return verdict

    def check_batch(self, calls: Sequence[Call]) -> list[Verdict]:
        """Decide calls, each by itself, in as few requests as the service takes."""
        verdicts: list[Verdict] = []
        for start in range(0, len(calls), MAX_BATCH):
            part = calls[start : start + MAX_BATCH]
            try:
                verdicts += _verdicts(self._ask("POST", "/v1/check/batch", {"calls": [c.body() for c in part]}), len(part))
            except Unavailable as error:
                verdicts += [self._settings.without(error)] * len(part)
        return verdicts

    def reserve(
        self, attributes: Mapping[str, str], *, cost: int = 1, domain: str = "default", id: Optional[str] = None, ttl_ms: Optional[int] = None
    ) -> Verdict:
        """Book a cost that is corrected later. Conclude ``verdict.reservation`` with settle or release."""
        try:
            return _verdict(self._ask("POST", "/v1/reserve", _reservation(Call(attributes, cost, domain, id).body(), ttl_ms)))
        except Unavailable as error:
            return self._settings.without(error)

    def settle(self, reservation: str, cost: int) -> Verdict:
        """Conclude a reservation with its true cost. After Unavailable it may be sent again: it takes effect once."""
        return _verdict(self._ask("POST", _path(reservation, "/settle"), {"cost": cost}, concluding=True))

    def renew(self, reservation: str, ttl_ms: Optional[int] = None) -> Verdict:
        """Keep a reservation open for longer."""
        return _verdict(self._ask("POST", _path(reservation, "/renew"), _reservation({}, ttl_ms), concluding=True))

    def release(self, reservation: str) -> Verdict:
        """Conclude a reservation at no cost."""
        return _verdict(self._ask("DELETE", _path(reservation), concluding=True))

    def report(
        self,
        reservation: Optional[str] = None,
        status: Optional[int] = None,
        *,
        request_id: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
        duration_ms: Optional[int] = None,
        bytes: Optional[int] = None,
    ) -> Verdict:
        """Say how a request ended: rules with charge_if, refund_if or strike_if charge by it, and permits are released.

        ``headers`` are the response headers that rules read, and ``bytes`` is the length of the body. Without a status
        the charge stays. ``request_id`` names a request that a proxy has asked about, in place of a reservation. After
        Unavailable it may be sent again: it takes effect once.
        """
        body = _report(reservation, request_id, status, headers, duration_ms, bytes)
        return _verdict(self._ask("POST", "/v1/report", body, concluding=True))


class AsyncClient:
    """The same for asyncio. ``timeout`` bounds each request as a whole."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8090",
        *,
        timeout: float = 0.5,
        on_error: str = "allow",
        deny_cache: Optional[DenyCache] = None,
        http: Optional[httpx.AsyncClient] = None,
    ) -> None:
        self._settings = _Settings.checked(url, timeout, on_error, deny_cache)
        self._http = http or httpx.AsyncClient(trust_env=False, timeout=timeout)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _ask(self, method: str, path: str, body: Any = None, *, concluding: bool = False) -> Any:
        try:
            return await asyncio.wait_for(self._send(method, path, body, concluding), self._settings.timeout)
        except asyncio.TimeoutError as error:
            raise Unavailable(f"no answer within {self._settings.timeout} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error

    async def _send(self, method: str, path: str, body: Any, concluding: bool) -> Any:
        settings = self._settings
        async with self._http.stream(method, settings.base + path, json=body, headers=settings.headers, follow_redirects=False) as answer:
            text = bytearray()
            async for piece in answer.aiter_bytes():
                text += piece
                if len(text) > MAX_REPLY:
                    raise Unavailable(f"the response has more than {MAX_REPLY} bytes")
            return _read(answer.status_code, answer.headers.get("content-type", ""), bytes(text), concluding)

    async def check(
        self, attributes: Mapping[str, str], *, cost: int = 1, domain: str = "default", id: Optional[str] = None, max_delay_ms: int = 0
    ) -> Verdict:
        """Decide a request, and charge it if it is allowed."""
        return await self.check_call(Call(attributes, cost, domain, id, max_delay_ms))

    async def check_call(self, call: Call) -> Verdict:
        """Decide a call."""
        cache, key = self._settings.cache, call.key()
        if cache is not None and key is not None:
            denied = cache.get(key)
            if denied is not None:
                return denied
        try:
            verdict = _verdict(await self._ask("POST", "/v1/check", call.body()))
        except Unavailable as error:
            return self._settings.without(error)
        if cache is not None and key is not None:
            cache.put(key, verdict)
        return verdict

    async def check_batch(self, calls: Sequence[Call]) -> list[Verdict]:
        """Decide calls, each by itself, in as few requests as the service takes."""
        verdicts: list[Verdict] = []
        for start in range(0, len(calls), MAX_BATCH):
            part = calls[start : start + MAX_BATCH]
            try:
                verdicts += _verdicts(await self._ask("POST", "/v1/check/batch", {"calls": [c.body() for c in part]}), len(part))
            except Unavailable as error:
                verdicts += [self._settings.without(error)] * len(part)
        return verdicts

    async def reserve(
        self, attributes: Mapping[str, str], *, cost: int = 1, domain: str = "default", id: Optional[str] = None, ttl_ms: Optional[int] = None
    ) -> Verdict:
        """Book a cost that is corrected later. Conclude ``verdict.reservation`` with settle or release."""
        try:
            return _verdict(await self._ask("POST", "/v1/reserve", _reservation(Call(attributes, cost, domain, id).body(), ttl_ms)))
        except Unavailable as error:
            return self._settings.without(error)

    async def settle(self, reservation: str, cost: int) -> Verdict:
        """Conclude a reservation with its true cost. After Unavailable it may be sent again: it takes effect once."""
        return _verdict(await self._ask("POST", _path(reservation, "/settle"), {"cost": cost}, concluding=True))

    async def renew(self, reservation: str, ttl_ms: Optional[int] = None) -> Verdict:
        """Keep a reservation open for longer."""
        return _verdict(await self._ask("POST", _path(reservation, "/renew"), _reservation({}, ttl_ms), concluding=True))

    async def release(self, reservation: str) -> Verdict:
        """Conclude a reservation at no cost."""
        return _verdict(await self._ask("DELETE", _path(reservation), concluding=True))

    async def report(
        self,
        reservation: Optional[str] = None,
        status: Optional[int] = None,
        *,
        request_id: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
        duration_ms: Optional[int] = None,
        bytes: Optional[int] = None,
    ) -> Verdict:
        """Say how a request ended: rules with charge_if, refund_if or strike_if charge by it, and permits are released.

        ``headers`` are the response headers that rules read, and ``bytes`` is the length of the body. Without a status
        the charge stays. ``request_id`` names a request that a proxy has asked about, in place of a reservation. After
        Unavailable it may be sent again: it takes effect once.
        """
        body = _report(reservation, request_id, status, headers, duration_ms, bytes)
        return _verdict(await self._ask("POST", "/v1/report", body, concluding=True))
