"""Django middleware.

    MIDDLEWARE = ["penstock.django.PenstockMiddleware", ...]
    PENSTOCK = {"URL": "http://penstock:8090", "HEADERS": {"user": "X-User-ID"}, "ON_ERROR": "allow", "TIMEOUT": 0.5}
"""

from __future__ import annotations

import time
from typing import Any, Callable

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from ._attributes import host_of, path_of, with_headers
from ._client import Call, Client
from ._errors import InvalidRequest, PenstockError
from ._outcome import Outcome
from ._response import denial, headers_of, refusal
from ._verdict import Verdict

_KNOWN = {"URL", "HEADERS", "ATTRIBUTES", "COST", "DOMAIN", "MAX_DELAY_MS", "ON_ERROR", "TIMEOUT", "DENY_CACHE", "RESPONSE_HEADERS"}


class PenstockMiddleware:
    """Asks Penstock about every request before the views get it. ``ATTRIBUTES`` is a function of the request.

    What the views return is reported: its status, duration and size, and the headers that ``RESPONSE_HEADERS`` lists.
    Rules may charge by them. The size of a streaming response is not known.
    """

    sync_capable, async_capable = True, False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        options: dict[str, Any] = getattr(settings, "PENSTOCK", {})
        unknown = sorted(set(options) - _KNOWN)
        if unknown:
            raise ImproperlyConfigured(f"PENSTOCK has unknown keys {unknown}; known are {sorted(_KNOWN)}")
        self.get_response = get_response
        self.client = Client(
            options.get("URL", "http://127.0.0.1:8090"),
            timeout=options.get("TIMEOUT", 0.5),
            on_error=options.get("ON_ERROR", "allow"),
            deny_cache=options.get("DENY_CACHE"),
        )
        self._headers, self._attributes = options.get("HEADERS", {}), options.get("ATTRIBUTES")
        self._cost, self._domain, self._max_delay_ms = options.get("COST", 1), options.get("DOMAIN", "default"), options.get("MAX_DELAY_MS", 0)
        self._response_headers = tuple(options.get("RESPONSE_HEADERS", ()))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            verdict = self.client.check_call(Call(self._describe(request), self._cost, self._domain, None, self._max_delay_ms))
        except InvalidRequest as error:
            return _response(refusal(400, "Bad Request", f"The request was rejected: {error}."))
        if not verdict.allowed:
            return _response(denial(verdict))
        if verdict.delay_ms:
            time.sleep(verdict.delay_ms / 1000)
        request.penstock = verdict  # type: ignore[attr-defined]
        outcome = Outcome(self._response_headers, request.method or "")
        try:
            response = self.get_response(request)
            outcome.begin(response.status_code, response.items())
            if isinstance(response, HttpResponse):
                outcome.count(len(response.content))
            else:
                outcome.bytes = None
        except Exception:
            outcome.fail()
            raise
        finally:
            self._conclude(verdict, outcome)
        for name, value in headers_of(verdict):
            response[name] = value
        return response

    def _conclude(self, verdict: Verdict, outcome: Outcome) -> None:
        """Report how the request ended. If that fails, the charge stays, and a permit expires by itself."""
        if verdict.reservation:
            try:
                self.client.report(verdict.reservation, **outcome.report())
            except PenstockError:
                pass

    def _describe(self, request: HttpRequest) -> dict[str, str]:
        attributes = {"path": path_of(request.path.encode("utf-8", "surrogateescape")), "method": request.method or ""}
        if request.META.get("REMOTE_ADDR"):
            attributes["ip"] = request.META["REMOTE_ADDR"]
        if request.META.get("HTTP_HOST"):
            attributes["host"] = host_of(request.META["HTTP_HOST"])
        values = {name.lower(): [request.headers[name]] for name in self._headers.values() if name in request.headers}
        with_headers(attributes, self._headers, values)
        if self._attributes is not None:
            attributes.update(self._attributes(request))
        return attributes


def _response(answer: tuple[int, list[tuple[str, str]], bytes]) -> HttpResponse:
    status, headers, body = answer
    response = HttpResponse(body, status=status, content_type="application/problem+json")
    for name, value in headers:
        response[name] = value
    return response
