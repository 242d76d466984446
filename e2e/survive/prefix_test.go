//go:build linux

package survive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const prefixRules = `
rules:
  - {name: network, key: [ip], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: site, key: [ip/48], limits: [{rate: 20/year, algorithm: fixed_window}]}
lists:
  allow: [{ip: 10.0.0.0/8}]
  deny: [{ip: 198.51.100.0/24}]
`

// listeners are ways to have a request of a client decided, by a proxy that is trusted.
var listeners = map[string]func(n *node, ip string) int{
	"gateway":      func(n *node, ip string) int { return n.forwarded("gateway", "/", ip) },
	"forward-auth": func(n *node, ip string) int { return n.forwarded("http", "/v1/auth", ip) },
	"check": func(n *node, ip string) int {
		n.t.Helper()
		body, err := json.Marshal(map[string]any{"attributes": map[string]string{"ip": ip}})
		if err != nil {
			n.t.Fatal(err)
		}
		res, err := n.client.Post(n.url("http", "/v1/check"), "application/json", bytes.NewReader(body))
		if err != nil {
			n.t.Fatal(err)
		}
		defer res.Body.Close()
		var verdict struct {
			Allowed bool
			Reason  string
		}
		if err := json.NewDecoder(res.Body).Decode(&verdict); err != nil {
			n.t.Fatal(err)
		}
		switch {
		case verdict.Allowed:
			return http.StatusOK
		case verdict.Reason == "deny_list":
			return http.StatusForbidden
		}
		return http.StatusTooManyRequests
	},
}

// forwarded sends a request of a client through a trusted proxy and returns the status.
func (n *node) forwarded(door, path, ip string) int {
	n.t.Helper()
	req, err := http.NewRequest(http.MethodGet, n.url(door, path), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header = http.Header{"X-Forwarded-For": {ip}, "X-Forwarded-Uri": {"/"}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-Host": {"example.com"}}
	res, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.StatusCode
}

// A client with 200 networks of /64 in one /48 gets the limit of the /48 and no more. Clients behind a
// NAT64 have a limit each, and one with 6to4 has that of its IPv4 address. Allow and deny lists see the
// same addresses as limits do.
func TestNetworksOfOneClient(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	for listener, send := range listeners {
		t.Run(listener, func(t *testing.T) {
			n := start(t, setup{rules: prefixRules, config: fmt.Sprintf("trusted_proxies: [127.0.0.1]\nupstreams: [{url: %q}]\n", upstream)})
			passed := func(ips ...string) (count int) {
				for _, ip := range ips {
					switch status := send(n, ip); status {
					case http.StatusOK:
						count++
					case http.StatusTooManyRequests:
					default:
						t.Errorf("%s: status %d", ip, status)
					}
				}
				return count
			}
			var networks []string
			for i := range 200 {
				networks = append(networks, fmt.Sprintf("2001:db8:1:%x::", i))
			}
			if got := passed(networks...); got != 20 {
				t.Errorf("%d requests of 200 networks of one /48 pass; want 20", got)
			}
			if got := passed(strings.Split(strings.Repeat("2001:db8:2:1:: ", 9)+"2001:db8:2:2::", " ")...); got != 4 {
				t.Errorf("%d requests of two networks of another /48 pass; want 3 and 1", got)
			}
			for i := range 10 {
				nat64 := fmt.Sprintf("64:ff9b::cb00:71%02x", i)
				if got := passed(nat64, nat64, nat64, nat64); got != 3 {
					t.Errorf("%d requests of %s pass; want 3", got, nat64)
				}
			}
			if got := passed("203.0.113.1", "2002:cb00:7101::1", "2002:cb00:7101:ffff::1", "::ffff:203.0.113.1"); got != 0 {
				t.Errorf("%d further requests of 203.0.113.1 pass", got)
			}
			for _, banned := range []string{"198.51.100.7", "64:ff9b::c633:6407", "2002:c633:6407:1::1", "::ffff:198.51.100.7"} {
				if got := send(n, banned); got != http.StatusForbidden {
					t.Errorf("%s: status %d; it is on the deny list", banned, got)
				}
			}
			for _, local := range []string{"2002:a00:1::", "64:ff9b::a00:1"} {
				if got := passed(local, local, local, local, local); got != 3 {
					t.Errorf("%d requests of %s pass; want 3: it is not 10.0.0.1, which is on the allow list", got, local)
				}
			}
		})
	}
}
