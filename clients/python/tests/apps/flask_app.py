import os

from flask import Flask

from penstock import Client
from penstock.flask import Penstock

app = Flask(__name__)
app.url_map.merge_slashes = False
Penstock(app, Client(os.environ["SERVICE_URL"], timeout=60, on_error="deny"), headers={"user": "X-User"})


@app.get("/", defaults={"path": ""})
@app.get("/<path:path>")
def answer(path):
    return "ok"


@app.errorhandler(404)
def other(_):
    return "ok"
