import os

from fastapi import FastAPI

from penstock import AsyncClient
from penstock.asgi import PenstockMiddleware

app = FastAPI()
app.add_middleware(PenstockMiddleware, client=AsyncClient(os.environ["SERVICE_URL"], timeout=60, on_error="deny"), headers={"user": "X-User"})


@app.get("/{path:path}")
async def answer(path: str):
    return {"path": path}
