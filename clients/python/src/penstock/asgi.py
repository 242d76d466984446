"""Middleware for ASGI: FastAPI, Starlette, Quart and others.

    app.add_middleware(PenstockMiddleware, client=AsyncClient("http://penstock:8090"), headers={"user": "X-User-ID"})
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Awaitable, Callable, Mapping, MutableMapping, Optional, Sequence, Union

from ._attributes import host_of, path_of, with_headers
from ._client import AsyncClient, Call
from ._errors import InvalidRequest, PenstockError
from ._outcome import Outcome
from ._response import denial, headers_of, refusal
from ._verdict import Verdict

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Attributes = Callable[[Scope], Union[Mapping[str, str], Awaitable[Mapping[str, str]]]]


class PenstockMiddleware:
    """Asks Penstock about every HTTP request before the application gets it.

    The service is told path, method, host and ip, the headers that ``headers`` names by attribute, and what
    ``attributes``, a function of the scope, returns; an attribute of that name replaces ours. The ip is the peer's:
    behind a proxy let the server find the client (uvicorn --proxy-headers --forwarded-allow-ips).

    When the response is over, its status, duration and size are reported, and the headers that ``response_headers``
    lists: rules may charge by them.
    """

    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        client: AsyncClient,
        *,
        headers: Optional[Mapping[str, str]] = None,
        attributes: Optional[Attributes] = None,
        cost: int = 1,
        domain: str = "default",
        max_delay_ms: int = 0,
        response_headers: Sequence[str] = (),
    ) -> None:
        self.app, self.client = app, client
        self._headers, self._attributes = dict(headers or {}), attributes
        self._cost, self._domain, self._max_delay_ms = cost, domain, max_delay_ms
        self._response_headers = tuple(response_headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            verdict = await self.client.check_call(Call(await self._describe(scope), self._cost, self._domain, None, self._max_delay_ms))
        except InvalidRequest as error:
            await _answer(scope, send, refusal(400, "Bad Request", f"The request was rejected: {error}."))
            return
        if not verdict.allowed:
            await _answer(scope, send, denial(verdict))
            return
        if verdict.delay_ms:
            await asyncio.sleep(verdict.delay_ms / 1000)
        scope.setdefault("state", {})
        try:
            scope["state"]["penstock"] = verdict
        except TypeError:
            pass  # a state of another kind than a mapping
        await self._serve(scope, receive, send, verdict)

    async def _describe(self, scope: Scope) -> dict[str, str]:
        values: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        attributes = {"path": path_of(scope["path"].encode()), "method": scope["method"]}
        if scope.get("client"):
            attributes["ip"] = scope["client"][0]
        if values.get("host"):
            attributes["host"] = host_of(values["host"][0])
        with_headers(attributes, self._headers, values)
        if self._attributes is not None:
            more = self._attributes(scope)
            attributes.update(await more if inspect.isawaitable(more) else more)  # type: ignore[arg-type]
        return attributes

    async def _serve(self, scope: Scope, receive: Receive, send: Send, verdict: Verdict) -> None:
        told = [(name.encode(), value.encode()) for name, value in headers_of(verdict)]
        outcome = Outcome(self._response_headers, scope["method"])

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                outcome.begin(message["status"], ((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers))
                message["headers"] = [*headers, *told]
            elif message["type"] == "http.response.body":
                outcome.count(len(message.get("body", b"")))
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception:
            outcome.fail()
            raise
        finally:
            await self._conclude(verdict, outcome)

    async def _conclude(self, verdict: Verdict, outcome: Outcome) -> None:
        """Report how the request ended. If that fails, the charge stays, and a permit expires by itself."""
        if verdict.reservation:
            try:
                await self.client.report(verdict.reservation, **outcome.report())
            except PenstockError:
                pass


async def _answer(scope: Scope, send: Send, answer: tuple[int, list[tuple[str, str]], bytes]) -> None:
    status, headers, body = answer
    lines = [(name.encode(), value.encode()) for name, value in headers] + [(b"Content-Length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
