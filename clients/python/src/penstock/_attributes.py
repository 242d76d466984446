"""What middleware tells the service of a request."""

from __future__ import annotations

from typing import Iterable, Mapping, Optional
from urllib.parse import quote

from ._errors import InvalidRequest


def path_of(decoded: bytes) -> str:
    """Return a path as the service reads it.

    Python's frameworks route by the decoded path, in which %2F is a slash. That path is escaped again, so that no
    spelling of a path evades the rule for it.
    """
    return quote(decoded, safe="/!$&'()*+,;=:@-._~") or "/"


def host_of(header: str) -> str:
    """Return a Host header without its port."""
    if header.startswith("["):
        return header.partition("]")[0].lstrip("[")
    return header.partition(":")[0]


def once(name: str, values: Iterable[str]) -> Optional[str]:
    """Return the value of a header. One that is sent twice is refused: it does not say who sends the request."""
    found = list(values)
    if len(found) > 1:
        raise InvalidRequest(f"header {name} was sent {len(found)} times")
    return found[0] if found else None


def with_headers(attributes: dict[str, str], headers: Mapping[str, str], values: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Add attributes that come from headers: headers maps their names to those of headers."""
    for attribute, name in headers.items():
        value = once(name, values.get(name.lower(), ()))
        if value is not None:
            attributes[attribute] = value
    return attributes
