"""What can be tested without a node."""

import asyncio
import json
import socket
import threading
import unittest

import conformance
import penstock
from penstock._attributes import host_of, path_of
from penstock._response import denial, headers_of


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


if __name__ == "__main__":
    unittest.main()
