"""Flask extension.

    Penstock(app, "http://penstock:8090", headers={"user": "X-User-ID"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Union

from ._client import Client
from .wsgi import PenstockMiddleware

if TYPE_CHECKING:
    from flask import Flask


class Penstock:
    """Limits all requests of an application. Options are those of :class:`penstock.wsgi.PenstockMiddleware`."""

    def __init__(self, app: "Optional[Flask]" = None, client: Union[Client, str] = "http://127.0.0.1:8090", **options: Any) -> None:
        self.client = Client(client) if isinstance(client, str) else client
        self._options = options
        if app is not None:
            self.init_app(app)

    def init_app(self, app: "Flask") -> None:
        """Put the middleware before the application."""
        app.wsgi_app = PenstockMiddleware(app.wsgi_app, self.client, **self._options)  # type: ignore[method-assign]
        app.extensions["penstock"] = self
