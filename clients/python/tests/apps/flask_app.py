import os

from flask import Flask, request

from penstock import Client
from penstock.flask import Penstock

app = Flask(__name__)
app.url_map.merge_slashes = False
Penstock(app, Client(os.environ["SERVICE_URL"], timeout=60, on_error="deny"), headers={"user": "X-User"}, response_headers=["X-Login"])


@app.get("/", defaults={"path": ""})
@app.get("/<path:path>")
def answer(path):
    told = request.headers.get("X-Answer", "200")
    return ("ok", {"X-Login": told}) if told == "failed" else ("ok", int(told))


@app.errorhandler(404)
def other(_):
    return "ok"
