package rules

// referenceExamples are the examples of docs/reference/rules-reference.md, by field.
var referenceExamples = map[string]string{
	"attributes":    "attributes:\n  user: {header: X-User-ID}\n  plan: {claim: plan}\n",
	"path_matching": "path_matching: {ignore_case: true, ignore_trailing_slash: true}\n",
	"rules":         "rules:\n  - name: search\n    key: [ip]\n    limits: [100/1m]\n",
	"lists":         "lists:\n  allow: [{ip: 192.0.2.0/24}]\n  deny: [{ip: 198.51.100.7}]\n",

	"attributes.NAME.header":      "attributes:\n  user: {header: X-User-ID}\n",
	"attributes.NAME.cookie":      "attributes:\n  user: {cookie: session}\n",
	"attributes.NAME.query":       "attributes:\n  user: {query: api_key}\n",
	"attributes.NAME.claim":       "attributes:\n  user: {claim: sub}\n",
	"attributes.NAME.certificate": "attributes:\n  user: {certificate: common_name}\n",

	"rules[].name":                      "name: search-per-user",
	"rules[].match":                     "match: {method: GET, path: \"/search/{rest...}\", plan: [free, trial]}",
	"rules[].path_matching":             "match: {path: /login}\npath_matching: {ignore_case: true}",
	"rules[].key":                       "key: [user, plan?, ip/64]",
	"rules[].limits":                    "limits:\n  - 100/1m\n  - {rate: 10/s, burst: 20, algorithm: token_bucket}",
	"rules[].requests_per_minute":       "requests_per_minute: 10\nrequests_per_hour: 100",
	"rules[].requests_per_hour":         "requests_per_hour: 100",
	"rules[].enable_progressive_limits": "enable_progressive_limits: true",
	"rules[].progressive_ban_durations": "enable_progressive_limits: true\nprogressive_ban_durations: [60, 300, 1h]",
	"rules[].cost":                      "cost: 5",
	"rules[].count_denied":              "count_denied: true",
	"rules[].dedup":                     "dedup: {ttl: 10s}    # by the header Idempotency-Key",
	"rules[].charge_if":                 "charge_if: status in [401, 403]",
	"rules[].refund_if":                 "refund_if: status >= 500 || header(\"X-Cache\") == \"HIT\"",
	"rules[].reserve":                   "reserve: {ttl: 60s, overage: allow}",
	"rules[].overdraft":                 "overdraft: {max: 1000}\nreserve: {ttl: 60s, overage: debt}",
	"rules[].penalty":                   "penalty: {after: 5, within: 10m, bans: [1m, 5m, 1h], forgive_after: 24h}",
	"rules[].consistency":               "consistency: leased",
	"rules[].on_store_error":            "on_store_error: {local: divided}",
	"rules[].mode":                      "mode: shadow",
	"rules[].overrides":                 "overrides:\n  - {match: {plan: gold}, limits: [1000/1m]}\n  - {match: {user: alice}, limits: unlimited}",
	"rules[].owner":                     "owner: search-team",
	"rules[].expires_at":                "expires_at: 2027-01-01T00:00:00Z",

	"rules[].match.domain":     "match: {domain: mesh}",
	"rules[].match.method":     "match: {method: [POST, PUT]}",
	"rules[].match.path":       "match: {path: \"/users/{id}/posts/{rest...}\"}\nkey: [id]",
	"rules[].match.attributes": "match:\n  attributes: {plan: [free, \"trial-*\"], ip: 10.0.0.0/8}",
	"rules[].match.when":       "match: {when: 'user != \"\" && !path.endsWith(\"/health\")'}",
	"rules[].match.on_error":   "match: {when: int(tokens) > 1000, on_error: deny}",

	"rules[].path_matching.ignore_case":              "match: {path: /login}\npath_matching: {ignore_case: true}",
	"rules[].path_matching.ignore_trailing_slash":    "match: {path: /login}\npath_matching: {ignore_trailing_slash: true}",
	"rules[].path_matching.ignore_matrix_parameters": "match: {path: /login}\npath_matching: {ignore_matrix_parameters: true}",

	"rules[].limits[].rate":       "limits:\n  - {rate: 100/1m}",
	"rules[].limits[].algorithm":  "limits:\n  - {rate: 1000/1h, algorithm: sliding_window_log}",
	"rules[].limits[].burst":      "limits:\n  - {rate: 10/s, burst: 20, algorithm: token_bucket}",
	"rules[].limits[].refill":     "limits:\n  - {rate: 3/60s, burst: 3, algorithm: token_bucket, refill: interval}",
	"rules[].limits[].queue":      "limits:\n  - {rate: 4/60s, queue: 6, algorithm: leaky_bucket}",
	"rules[].limits[].timezone":   "limits:\n  - {rate: 5000/month, algorithm: fixed_window, timezone: Europe/Berlin}",
	"rules[].limits[].concurrent": "limits:\n  - {concurrent: 5, ttl: 30s}",
	"rules[].limits[].ttl":        "limits:\n  - {concurrent: 5, ttl: 30s}",

	"rules[].cost.attribute":       "cost: {attribute: tokens}",
	"rules[].cost.response_header": "cost: {response_header: X-Cost, default: 10}",
	"rules[].cost.response_bytes":  "cost: {response_bytes: true, default: 1000}\nlimits: [1_000_000/1m]",
	"rules[].cost.default":         "cost: {attribute: tokens, default: 100}\nlimits: [10000/1m]",
	"rules[].cost.max":             "cost: {attribute: tokens, max: 5000}\nlimits: [10000/1m]",

	"rules[].dedup.ttl":           "dedup: {ttl: 10s}",
	"rules[].dedup.max_replays":   "dedup: {ttl: 10s, max_replays: 3}",
	"rules[].dedup.replay_budget": "dedup: {ttl: 10s, replay_budget: 20%}",
	"rules[].dedup.attribute":     "dedup: {ttl: 10s, attribute: request}    # attributes: {request: {header: X-Request-ID}}",

	"rules[].reserve.ttl":     "reserve: {ttl: 60s}",
	"rules[].reserve.overage": "reserve: {ttl: 60s, overage: allow}",

	"rules[].overdraft.max": "overdraft: {max: 1000}",

	"rules[].penalty.after":         "penalty: {after: 5, within: 10m, bans: [1m]}",
	"rules[].penalty.within":        "penalty: {after: 5, within: 10m, bans: [1m]}",
	"rules[].penalty.bans":          "penalty: {after: 5, within: 10m, bans: [1m, 5m, 1h, 24h]}",
	"rules[].penalty.forgive_after": "penalty: {after: 5, within: 10m, bans: [1m], forgive_after: 48h}",
	"rules[].penalty.strike_if":     "penalty: {after: 5, within: 10m, bans: [1h], strike_if: status == 401}",

	"rules[].overrides[].match":      "overrides:\n  - {match: {plan: gold}, limits: [1000/1m]}",
	"rules[].overrides[].limits":     "overrides:\n  - {match: {user: alice}, limits: unlimited}",
	"rules[].overrides[].expires_at": "overrides:\n  - {match: {user: alice}, limits: [500/1m], expires_at: 2027-01-01T00:00:00Z}",

	"lists.allow": "lists:\n  allow:\n    - {ip: 192.0.2.0/24}\n    - {user: monitoring}\n",
	"lists.deny":  "lists:\n  deny:\n    - {user: [mallory, \"bot-*\"]}\n",
}
