"""Middleware for WSGI: Flask, Django, Bottle, Pyramid and others.

    app.wsgi_app = PenstockMiddleware(app.wsgi_app, Client("http://penstock:8090"), headers={"user": "X-User-ID"})
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any, Callable, Iterable, Iterator, Mapping, MutableMapping, Optional

from ._attributes import host_of, path_of, with_headers
from ._client import Call, Client
from ._errors import InvalidRequest, PenstockError
from ._response import denial, headers_of, refusal
from ._verdict import Verdict

Environ = MutableMapping[str, Any]


class PenstockMiddleware:
    """Asks Penstock about every request before the application gets it.

    The service is told path, method, host and ip, the headers that ``headers`` names by attribute, and what
    ``attributes``, a function of the WSGI environment, returns; an attribute of that name replaces ours. The ip is
    REMOTE_ADDR: behind a proxy let the server or a middleware before this one set it (werkzeug's ProxyFix).
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
    ) -> None:
        self.app, self.client = app, client
        self._headers, self._attributes = dict(headers or {}), attributes
        self._cost, self._domain, self._max_delay_ms = cost, domain, max_delay_ms

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            verdict = self.client.check_call(Call(self._describe(environ), self._cost, self._domain, None, self._max_delay_ms))
        except InvalidRequest as error:
            return _answer(environ, start_response, refusal(400, "Bad Request", f"The request was refused: {error}."))
        if not verdict.allowed:
            return _answer(environ, start_response, denial(verdict))
        if verdict.delay_ms:
            time.sleep(verdict.delay_ms / 1000)
        environ["penstock.verdict"] = verdict
        told = headers_of(verdict)

        def start_with_headers(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, *told], *more)

        if not verdict.reservation:
            return self.app(environ, start_with_headers)
        try:
            return _Concluding(self.app(environ, start_with_headers), lambda: self._conclude(verdict))
        except BaseException:
            self._conclude(verdict)
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

    def _conclude(self, verdict: Verdict) -> None:
        """Give a permit of a concurrency limit back; one that is lost expires by itself."""
        try:
            self.client.settle(verdict.reservation or "", self._cost)
        except PenstockError:
            pass


class _Concluding:
    """A response that does something when it has been sent."""

    def __init__(self, body: Iterable[bytes], conclude: Callable[[], None]) -> None:
        self._body, self._conclude = body, conclude

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

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
