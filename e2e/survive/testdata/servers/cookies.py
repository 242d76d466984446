# Prints what werkzeug, Starlette and Django read. Run: apt-get install python3-flask python3-starlette python3-django
# && /usr/bin/python3 cookies.py
import json

from django.http.cookie import parse_cookie as django
from starlette.requests import cookie_parser as starlette
from werkzeug.http import parse_cookie as werkzeug

for line in json.load(open("cookies.json")):
    latin1 = line.encode().decode("latin1")
    print(json.dumps([line, dict(werkzeug({"HTTP_COOKIE": latin1})).get("sid"), starlette(latin1).get("sid"), django(line).get("sid")]))
