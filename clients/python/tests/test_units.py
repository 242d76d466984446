"""What can be tested without a node."""

import asyncio
import json
import socket
import threading
import unittest

import conformance
import penstock
from penstock._attributes import host_of, path_of
from penstock._outcome import Outcome
from penstock._response import denial, headers_of
from penstock.wsgi import PenstockMiddleware


class Responses(unittest.TestCase):
    def test_conformance(self):
        for case in conformance.responses():
            with self.subTest(case["name"]):
                verdict = penstock.Verdict.from_json(case["verdict"])
                if verdict.allowed:
                    self.assertEqual(dict(headers_of(verdict)), case["headers"])
                    continue
                status, headers, body = denial(verdict)
                self.assertEqual(status, case["status"])
                self.assertEqual(dict(headers), case["headers"])
                self.assertEqual(json.loads(body), case["body"])
                self.assertEqual(list(json.loads(body)), list(case["body"]))


def denied(**fields):
    return penstock.Verdict(allowed=False, **{"reason": "over_limit", "retry_after_ms": 3000, "reset_after_ms": 9000, **fields})


class DenyCache(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        self.cache = penstock.DenyCache(size=2, max_age=5, clock=lambda: self.now)

    def test_honours_retry_after(self):
        self.cache.put("k", denied())
        self.now += 1
        self.assertEqual(self.cache.get("k").retry_after_ms, 2000)
        self.now += 1.999
        self.assertIsNotNone(self.cache.get("k"))
        self.now += 0.001
        self.assertIsNone(self.cache.get("k"))

    def test_forgets_long_denials(self):
        for wait in (60_000, None):
            self.cache.put("k", denied(retry_after_ms=wait))
            self.assertIsNotNone(self.cache.get("k"))
            self.now += 5
            self.assertIsNone(self.cache.get("k"))

    def test_keeps_only_what_lasts(self):
        concurrency = penstock.Limit(algorithm="concurrency", allowed=False)
        for verdict in (
            penstock.Verdict(allowed=True),
            denied(reason="store_error"),
            denied(quality="local"),
            denied(limits=(concurrency,)),
        ):
            self.cache.put("k", verdict)
            self.assertIsNone(self.cache.get("k"))

    def test_is_bounded(self):
        for key in "abc":
            self.cache.put(key, denied())
        self.assertEqual([self.cache.get(k) is not None for k in "abc"], [False, True, True])


class Failures(unittest.TestCase):
    """A service that does not answer, or not as Penstock does."""

    def serve(self, answer):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.connections = 0

        def run():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                self.connections += 1
                self.addCleanup(connection.close)
                if answer is not None:
                    connection.recv(65536)
                    connection.sendall(answer)
                    connection.close()

        threading.Thread(target=run, daemon=True).start()
        return "http://127.0.0.1:%d" % listener.getsockname()[1]

    def closed(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return "http://127.0.0.1:%d" % listener.getsockname()[1]

    def test_policy(self):
        page = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi\r\n"
        other = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        moved = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
        for url in (self.closed(), self.serve(None), self.serve(page), self.serve(other), self.serve(moved), self.serve(b"HTTP/1.1 502 Bad\r\n\r\n")):
            for policy, allowed in (("allow", True), ("deny", False)):
                with self.subTest(url=url, policy=policy):
                    with penstock.Client(url, timeout=0.2, on_error=policy) as client:
                        verdict = client.check({"path": "/"})
                        self.assertEqual((verdict.allowed, verdict.reason), (allowed, "store_error"))
                        self.assertTrue(verdict.error)
                        self.assertEqual([v.allowed for v in client.check_batch([penstock.Call({})] * 2)], [allowed] * 2)
                        self.assertEqual(client.reserve({}).allowed, allowed)
                        with self.assertRaises(penstock.Unavailable):
                            client.settle("r", 1)
                        with self.assertRaises(penstock.Unavailable):
                            client.report("r", 200)

                    async def ask():
                        async with penstock.AsyncClient(url, timeout=0.2, on_error=policy) as client:
                            return await client.check({"path": "/"})

                    self.assertEqual(asyncio.run(ask()).allowed, allowed)

    def test_is_sent_once(self):
        with penstock.Client(self.serve(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), timeout=60) as client:
            client.check({})
        self.assertEqual(self.connections, 1)

    def test_settings(self):
        for url in ("penstock:8090", "ftp://penstock", "http://", "http://penstock/?x=1"):
            with self.subTest(url), self.assertRaises(ValueError):
                penstock.Client(url)
        with self.assertRaises(ValueError):
            penstock.Client(on_error="ignore")
        with self.assertRaises(ValueError):
            penstock.Client(timeout=0)


class Attributes(unittest.TestCase):
    def test_path(self):
        for decoded, want in ((b"/api/x", "/api/x"), (b"", "/"), (b"/a b?#%", "/a%20b%3F%23%25"), ("/ü".encode(), "/%C3%BC")):
            self.assertEqual(path_of(decoded), want)

    def test_host(self):
        for header, want in (("shop.example", "shop.example"), ("shop.example:80", "shop.example"), ("[::1]:80", "::1")):
            self.assertEqual(host_of(header), want)


class Outcomes(unittest.TestCase):
    def test_report(self):
        outcome = Outcome(["X-Login"], "GET")
        self.assertEqual(outcome.report(), {})
        outcome.begin(401, [("x-login", "failed"), ("X-Login", "again"), ("X-Other", "1")])
        outcome.fail()
        outcome.count(3)
        outcome.count(4)
        report = outcome.report()
        self.assertGreaterEqual(report.pop("duration_ms"), 0)
        self.assertEqual(report, {"status": 401, "headers": {"X-Login": "failed"}, "bytes": 7})
        outcome.begin(500, replaces=True)
        outcome.bytes = None
        outcome.count(1)
        self.assertEqual({k: v for k, v in outcome.report().items() if k != "duration_ms"}, {"status": 500, "headers": {}})

    def test_head_has_no_body(self):
        outcome = Outcome([], "HEAD")
        outcome.begin(200)
        outcome.count(5)
        self.assertEqual(outcome.report()["bytes"], 0)

    def concluded(self, app):
        """Return what the WSGI middleware reports about an application, and what it raises."""
        reports = []

        class Recorder:
            def check_call(self, call):
                return penstock.Verdict(allowed=True, reservation="r")

            def report(self, reservation, **report):
                report.pop("duration_ms", None)
                reports.append((reservation, report))

        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}
        raised = None
        try:
            body = PenstockMiddleware(app, Recorder(), response_headers=["X-Login"])(environ, lambda *_: None)
            try:
                list(body)
            finally:
                body.close()
        except Exception as error:
            raised = error
        self.assertEqual(len(reports), 1, "one report")
        return reports[0], raised

    def test_wsgi(self):
        def answers(environ, start_response):
            start_response("401 Unauthorized", [("X-Login", "failed")])
            return [b"no", b"!"]

        def raises(environ, start_response):
            raise RuntimeError("before")

        def raises_late(environ, start_response):
            raise RuntimeError("when read")
            yield b""

        def replaces(environ, start_response):
            start_response("200 OK", [])
            start_response("503 Service Unavailable", [], (None, None, None))
            return []

        self.assertEqual(self.concluded(answers), (("r", {"status": 401, "headers": {"X-Login": "failed"}, "bytes": 3}), None))
        for app in (raises, raises_late):
            report, raised = self.concluded(app)
            self.assertEqual((report[1]["status"], type(raised)), (500, RuntimeError))
        self.assertEqual(self.concluded(replaces)[0][1]["status"], 503)


if __name__ == "__main__":
    unittest.main()
