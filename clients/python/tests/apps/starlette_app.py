import os

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from penstock import AsyncClient
from penstock.asgi import PenstockMiddleware


async def answer(request):
    told = request.headers.get("X-Answer", "200")
    if told == "failed":
        return PlainTextResponse("ok", headers={"X-Login": told})
    return PlainTextResponse("ok", int(told))


app = PenstockMiddleware(
    Starlette(routes=[Route("/{path:path}", answer)]),
    AsyncClient(os.environ["SERVICE_URL"], timeout=60, on_error="deny"),
    headers={"user": "X-User"},
    response_headers=["X-Login"],
)
