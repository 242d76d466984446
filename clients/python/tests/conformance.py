"""The files that the clients of all languages pass."""

import json
import pathlib

_DIRECTORY = pathlib.Path(__file__).resolve().parents[2] / "conformance"


def responses():
    return json.loads((_DIRECTORY / "responses.json").read_text())


def session():
    return json.loads((_DIRECTORY / "session.json").read_text())
