wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"domain": "default", "attributes": {"ip": "192.0.2.7", "path": "/search", "method": "GET"}, "cost": 1}'
