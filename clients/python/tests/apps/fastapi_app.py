import os

from fastapi import FastAPI, Request, Response

from penstock import AsyncClient
from penstock.asgi import PenstockMiddleware

app = FastAPI()
app.add_middleware(
    PenstockMiddleware,
    client=AsyncClient(os.environ["SERVICE_URL"], timeout=60, on_error="deny"),
    headers={"user": "X-User"},
    response_headers=["X-Login"],
)


@app.get("/{path:path}")
async def answer(path: str, request: Request, response: Response):
    told = request.headers.get("X-Answer", "200")
    if told == "failed":
        response.headers["X-Login"] = told
    else:
        response.status_code = int(told)
    return {"path": path}
