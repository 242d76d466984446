"""Middleware for WSGI: Flask, Django, Bottle, Pyramid and others.

    app.wsgi_app = PenstockMiddleware(app.wsgi_app, Client("http://penstock:8090"), headers={"user": "X-User-ID"})
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any, Callable, Iterable, Iterator, Mapping, MutableMapping, Optional, Sequence

from ._attributes import host_of, path_of, with_headers
from ._client import Call, Client
from ._errors import InvalidRequest, PenstockError
from ._outcome import Outcome
from ._response import denial, headers_of, refusal
from ._verdict import Verdict

Environ = MutableMapping[str, Any]


class PenstockMiddleware:
    """Asks Penstock about every request before the application gets it.

    The service is told path, method, host and ip, the headers that ``headers`` names by attribute, and what
    ``attributes``, a function of the WSGI environment, returns; an attribute of that name replaces ours. The ip is
    REMOTE_ADDR: behind a proxy let the server or a middleware before this one set it (werkzeug's ProxyFix).

    When the response is over, its status, duration and size are reported, and the headers that ``response_headers``
    lists: rules may charge by them.
    """

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        client: Client,
        *,
        headers: Optional[Mapping[str, str]] = None,
        attributes: Optional[Callable[[Environ], Mapping[str, str]]] = None,
        cost: int = 1,
        domain: str = "default",
        max_delay_ms: int = 0,
        response_headers: Sequence[str] = (),
    ) -> None:
        self.app, self.client = app, client
        self._headers, self._attributes = dict(headers or {}), attributes
        self._cost, self._domain, self._max_delay_ms = cost, domain, max_delay_ms
        self._response_headers = tuple(response_headers)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            verdict = self.client.check_call(Call(self._describe(environ), self._cost, self._domain, None, self._max_delay_ms))
        except InvalidRequest as error:
            return _answer(environ, start_response, refusal(400, "Bad Request", f"The request was rejected: {error}."))
        if not verdict.allowed:
            return _answer(environ, start_response, denial(verdict))
        if verdict.delay_ms:
            time.sleep(verdict.delay_ms / 1000)
        environ["penstock.verdict"] = verdict
        told = headers_of(verdict)
        outcome = Outcome(self._response_headers, environ["REQUEST_METHOD"])

        def start_with_headers(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            write = start_response(status, [*headers, *told], *more)
            outcome.begin(int(status[:3]), headers, replaces=bool(more and more[0]))
            return write

        if not verdict.reservation:
            return self.app(environ, start_with_headers)
        try:
            return _Concluding(self.app(environ, start_with_headers), outcome, lambda: self._conclude(verdict, outcome))
        except BaseException as error:
            if isinstance(error, Exception):
                outcome.fail()
            self._conclude(verdict, outcome)
            raise

    def _describe(self, environ: Environ) -> dict[str, str]:
        path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1")
        attributes = {"path": path_of(path), "method": environ["REQUEST_METHOD"]}
        if environ.get("REMOTE_ADDR"):
            attributes["ip"] = environ["REMOTE_ADDR"]
        if environ.get("HTTP_HOST"):
            attributes["host"] = host_of(environ["HTTP_HOST"])
        values = {}
        for name in self._headers.values():
            value = environ.get("HTTP_" + name.upper().replace("-", "_"))
            if value is not None:
                values[name.lower()] = [value]
        with_headers(attributes, self._headers, values)
        if self._attributes is not None:
            attributes.update(self._attributes(environ))
        return attributes

    def _conclude(self, verdict: Verdict, outcome: Outcome) -> None:
        """Report how the request ended. If that fails, the charge stays, and a permit expires by itself."""
        try:
            self.client.report(verdict.reservation, **outcome.report())
        except PenstockError:
            pass


class _Concluding:
    """A response that is counted, and does something when it has been sent."""

    def __init__(self, body: Iterable[bytes], outcome: Outcome, conclude: Callable[[], None]) -> None:
        self._body, self._outcome, self._conclude = body, outcome, conclude

    def __iter__(self) -> Iterator[bytes]:
        try:
            for piece in self._body:
                self._outcome.count(len(piece))
                yield piece
        except Exception:
            self._outcome.fail()
            raise

    def close(self) -> None:
        """Servers call it at the end."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._conclude()


def _answer(environ: Environ, start_response: Callable[..., Any], answer: tuple[int, list[tuple[str, str]], bytes]) -> Iterable[bytes]:
    status, headers, body = answer
    start_response(f"{status} {HTTPStatus(status).phrase}", [*headers, ("Content-Length", str(len(body)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
