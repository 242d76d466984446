"""What a limited client is told: the same headers and problem documents as Penstock's own gateway writes."""

from __future__ import annotations

import json
import math
from typing import Optional

from ._verdict import Limit, Verdict

_MAX_LISTED = 32
_MAX_INTEGER = 999_999_999_999_999
_TYPES = "https://iana.org/assignments/http-problem-types"
_BUCKETS = ("token_bucket", "leaky_bucket")


def status_of(verdict: Verdict) -> int:
    """Return the status of a denial."""
    if verdict.reason in ("deny_list", "rule_error"):
        return 403
    return 503 if verdict.reason == "store_error" else 429


def headers_of(verdict: Verdict) -> list[tuple[str, str]]:
    """Return the headers that tell a client of its limits, and when to try again if it is denied."""
    listed = [limit for limit in verdict.limits if not limit.shadow][:_MAX_LISTED]
    headers = []
    if listed:
        headers.append(("RateLimit", ", ".join(map(_state, listed))))
        headers.append(("RateLimit-Policy", ", ".join(map(_policy, listed))))
    wait = _wait_ms(verdict)
    if wait is not None:
        headers.append(("Retry-After", str(_seconds(wait))))
    return headers


def denial(verdict: Verdict) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return status, headers and body of a denial."""
    headers = headers_of(verdict) + [
        ("Cache-Control", "no-store"),
        ("Content-Type", "application/problem+json"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    return status_of(verdict), headers, json.dumps(problem_of(verdict), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def refusal(status: int, title: str, detail: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return the answer to a request that cannot be decided."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "error": "bad_request", "message": title + "."}
    headers = [("Cache-Control", "no-store"), ("Content-Type", "application/problem+json"), ("X-Content-Type-Options", "nosniff")]
    return status, headers, json.dumps(body, separators=(",", ":")).encode() + b"\n"


def problem_of(verdict: Verdict) -> dict[str, object]:
    """Return the body of a denial (RFC 9457)."""
    status = status_of(verdict)
    if status == 403:
        detail = "A rule cannot be evaluated for this request." if verdict.reason == "rule_error" else "Access denied."
        return _problem("about:blank", "Forbidden", status, detail, verdict, "forbidden", "Access denied.")
    detail = f"{_cause(verdict)}; {_advice(verdict)}"
    if status == 503:
        message = "Service temporarily unavailable. Please try again."
        body = _problem(_TYPES + "#temporary-reduced-capacity", "Temporary reduced capacity", status, detail, verdict, "unavailable", message)
    elif verdict.reason == "blocked":
        message = "Access is temporarily blocked."
        body = _problem(_TYPES + "#abnormal-usage-detected", "Abnormal usage detected", status, detail, verdict, "blocked", message)
    elif verdict.reason == "banned":
        body = _problem(
            _TYPES + "#abnormal-usage-detected", "Abnormal usage detected", status, detail, verdict, "rate_limited", "Too many requests. Please slow down."
        )
    else:
        body = _problem(_TYPES + "#quota-exceeded", "Quota exceeded", status, detail, verdict, "rate_limited", "Too many requests. Please slow down.")
    wait = _wait_ms(verdict)
    body["retry_after_seconds"] = None if wait is None else _seconds(wait)
    body["retry_after_ms"] = wait
    return body


def _problem(type_: str, title: str, status: int, detail: str, verdict: Verdict, error: str, message: str) -> dict[str, object]:
    body: dict[str, object] = {"type": type_, "title": title, "status": status, "detail": detail}
    violated = [limit.policy for limit in verdict.limits if not limit.shadow and not limit.allowed]
    if violated:
        body["violated-policies"] = violated
    body["error"], body["message"] = error, message
    return body


def _cause(verdict: Verdict) -> str:
    if verdict.reason == "store_error":
        return "The limits cannot be checked right now"
    if verdict.reason == "blocked":
        return "Blocked by an operator"
    if verdict.reason == "banned":
        return f"Banned temporarily after too many denied requests ({verdict.rule})"
    for limit in verdict.limits:
        if not limit.shadow and not limit.allowed and limit.rule == verdict.rule and limit.retry_after_ms == verdict.retry_after_ms:
            return f"Limit of {_describe(limit)} reached"
    return "Limit reached"


def _describe(limit: Limit) -> str:
    bucket = limit.algorithm in _BUCKETS
    number = limit.count if bucket and limit.count > 0 else limit.limit
    text = f"{number} request" + ("" if number == 1 else "s")
    if limit.algorithm == "concurrency":
        text += " at the same time"
    elif not bucket or limit.count > 0:
        text += f" per {_seconds(limit.window_ms)} s"
    if limit.algorithm == "leaky_bucket" and limit.limit > 1:
        text += f" with a queue of {limit.limit - 1}"
    elif limit.algorithm == "token_bucket" and limit.count > 0 and limit.limit != limit.count:
        text += f" with a burst of {limit.limit}"
    return f"{text} ({limit.policy})"


def _advice(verdict: Verdict) -> str:
    wait = _wait_ms(verdict)
    return "the cost exceeds the limit." if wait is None else f"retry in {_seconds(wait)} s."


def _wait_ms(verdict: Verdict) -> Optional[int]:
    """Return how long a denied client waits, a second if nobody knows; None if waiting does not help."""
    if verdict.allowed or verdict.reason == "deny_list" or verdict.retry_after_ms is None:
        return None
    return verdict.retry_after_ms if verdict.retry_after_ms > 0 else 1000


def _seconds(milliseconds: int) -> int:
    return max(1, -(-milliseconds // 1000))


def _policy(limit: Limit) -> str:
    text = f"{_quoted(limit.policy)};q={_integer(limit.limit)}"
    if limit.algorithm == "concurrency":
        return text + ';qu="concurrent-requests"'
    if limit.algorithm not in _BUCKETS or limit.limit == limit.count:
        return f"{text};w={_integer(_seconds(limit.window_ms))}"
    if limit.count <= 0:
        return text
    seconds = limit.limit * (limit.window_ms / 1000) / limit.count
    return f"{text};w={max(1, math.ceil(min(seconds - 1e-9, _MAX_INTEGER)))}"


def _state(limit: Limit) -> str:
    text = f"{_quoted(limit.policy)};r={_integer(limit.remaining)}"
    wait = _effective_window_ms(limit)
    return text if wait is None else f"{text};t={_integer(-(-wait // 1000))}"


def _effective_window_ms(limit: Limit) -> Optional[int]:
    """Return for how long a client should make do with what remains."""
    if not limit.allowed:
        return limit.retry_after_ms
    if limit.algorithm == "concurrency" or limit.reset_after_ms <= 0:
        return None
    if limit.algorithm in _BUCKETS:
        return _next_unit_ms(limit, limit.count)
    wait = min(limit.reset_after_ms, max(limit.window_ms, 0))
    if limit.algorithm == "sliding_window_counter":  # if all was used in this part, it fades only in the next
        wait = max(wait, _next_unit_ms(limit, max(1, limit.used)))
    return wait


def _next_unit_ms(limit: Limit, count: int) -> int:
    """Return when more will be left, if count units come back in a window, singly or together. Debt is paid first."""
    used = max(1, limit.used)
    if count <= 0:
        return -(-limit.reset_after_ms // used)
    first = min(used, max(1, used - limit.limit + 1))  # units that must come back
    if limit.refill == "interval":
        windows = -(-used // count) - -(-first // count)
        return max(0, limit.reset_after_ms - windows * max(limit.window_ms, 0))
    later = (used - first) * max(limit.window_ms, 0) // count
    return max(0, limit.reset_after_ms - later)


def _quoted(text: str) -> str:
    out = "".join("?" if ord(c) < 0x20 or ord(c) >= 0x7F else "\\" + c if c in '"\\' else c for c in text)
    return f'"{out}"'


def _integer(number: int) -> int:
    return min(max(number, 0), _MAX_INTEGER)
