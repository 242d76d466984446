//go:build linux

package survive

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The rule under which attackers would like to ban others, or reset themselves.
const roleRules = `
rules:
  - {name: per-user, key: [user], limits: [{rate: 100/year, algorithm: fixed_window}], penalty: {after: 50, within: 1h, bans: [1h]}}
`

// An adminRoute is a path of the admin API as its document names it.
type adminRoute struct{ method, path, role string }

func (n *node) adminRoutes() (routes []adminRoute) {
	n.t.Helper()
	res, err := n.client.Get(n.url("admin", "/openapi.json"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&document); err != nil {
		n.t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method, text := range methods {
			var operation struct {
				Role string `json:"x-role"`
			}
			if json.Unmarshal(text, &operation) != nil || operation.Role == "" || path == "/v1/session" || path == "/v1/demo" { // parameters; this test makes its own sessions, and there is no demo
				continue
			}
			path := strings.NewReplacer("{number}", "1", "{name}", "per-user", "{id}", "none").Replace(path)
			routes = append(routes, adminRoute{strings.ToUpper(method), path, operation.Role})
		}
	}
	return routes
}

// harm returns a body that would do harm if the route took it.
func (r adminRoute) harm() string {
	switch {
	case r.path == "/v1/bans":
		return `{"rule": "per-user", "attributes": {"user": "victim"}, "duration": "1h"}`
	case r.path == "/v1/keys/reset":
		return `{"attributes": {"user": "victim"}}`
	case r.path == "/v1/rules" && r.method == http.MethodPut:
		return `{"base": 0, "document": "rules: []", "message": "x"}`
	case r.path == "/v1/users":
		return `{"name": "eve", "role": "admin", "password": "correct horse battery"}`
	case r.path == "/v1/tokens":
		return `{"name": "eve", "role": "admin", "days": 0}`
	case strings.HasSuffix(r.path, "/overrides"):
		return `{"match": {"user": "attacker"}, "limit": "unlimited"}`
	}
	return "{}"
}

// A credential is what a client authenticates with, and the role that it gives.
type credential struct {
	name, role string
	headers    []string
	crossSite  bool
}

// credentials are all but those of operators.
func credentials(viewerCookie, operatorCookie string) []credential {
	all := []credential{
		{"a viewer's token", "viewer", []string{"Authorization: Bearer " + viewerToken}, false},
		{"a viewer's session", "viewer", []string{"Cookie: " + viewerCookie}, false},
		{"a viewer's session and headers of a proxy", "viewer", []string{"Cookie: " + viewerCookie, "X-Forwarded-User: operator", "X-Role: operator", "X-Forwarded-For: 127.0.0.1", "X-Original-URL: /healthz", "X-HTTP-Method-Override: GET"}, false},
		{"nothing", "anybody", nil, false},
		{"a session on a page of another site", "anybody", []string{"Cookie: " + operatorCookie, "Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, true},
		{"a session and another host", "anybody", []string{"Cookie: " + operatorCookie, "Host: evil.example"}, false},
		{"an operator's token and another host", "anybody", []string{"Authorization: Bearer " + operatorToken, "Host: evil.example:8091"}, false},
	}
	for _, authorization := range []string{
		"", "Bearer", "Bearer ", operatorToken, "Basic " + operatorToken, "Token " + operatorToken, "Bearer " + operatorToken[:len(operatorToken)-1], "Bearer " + operatorToken + "x", "Bearer " + strings.ToUpper(operatorToken), "Bearer " + operatorToken + ", Bearer x",
		"Bearer null", "Bearer undefined", "Bearer *", "Bearer ' OR 1=1 --", "Bearer " + strings.Repeat("x", 8000), "Bearer \xff\xfe", "Bearer " + operatorToken + "\t" + operatorToken,
	} {
		all = append(all, credential{fmt.Sprintf("Authorization %.40q", authorization), "anybody", []string{"Authorization: " + authorization}, false})
	}
	for _, cookie := range []string{
		"penstock_session=", "penstock_session=x", "penstock_session=" + operatorToken, "penstock_session=../../x", strings.Replace(operatorCookie, "penstock_session", "__Host-penstock", 1), operatorCookie + "x", operatorCookie[:len(operatorCookie)-1], "Penstock_Session" + strings.TrimPrefix(operatorCookie, "penstock_session"),
	} {
		all = append(all, credential{fmt.Sprintf("cookie %.40q", cookie), "anybody", []string{"Cookie: " + cookie}, false})
	}
	return all
}

// Every route of the running admin API admits only clients with its role, whatever credentials others
// send and however they spell the path. Their requests have no effect, and operators are still served.
func TestAdminRoutesAndRoles(t *testing.T) {
	t.Parallel()
	n := start(t, setup{rules: roleRules, config: "upstreams: [{url: \"http://127.0.0.1:1\"}]\n"})
	victim := map[string]string{"user": "victim"}
	n.spend("victim", 7)
	routes := n.adminRoutes()
	if len(routes) < 20 {
		t.Errorf("only %d routes: %v", len(routes), routes)
	}
	shown := credentials(n.login(viewerToken), n.login(operatorToken))
	rank := []string{"anybody", "viewer", "operator", "admin"}
	var texts []string
	for _, c := range shown {
		for _, r := range routes {
			isRead := c.crossSite && r.method == http.MethodGet // which browsers neither send with the cookie nor show to the page
			if slices.Index(rank, c.role) < slices.Index(rank, r.role) && !isRead {
				texts = append(texts, r.request(r.path, c.headers...))
			}
		}
	}
	ask(t, n.addresses["admin"], texts, func(text string, r reply) {
		if r.status != http.StatusUnauthorized && r.status != http.StatusForbidden && r.status != http.StatusTooManyRequests && r.status != http.StatusBadRequest {
			t.Errorf("%.400q: status %d, %.200s", text, r.status, r.body)
		}
	})
	spelled := n.spellings(routes)
	t.Logf("%d requests without the role, %d with other spellings", len(texts), len(spelled))
	ask(t, n.addresses["admin"], spelled, func(text string, r reply) {
		isPublic := strings.HasPrefix(r.header.Get("Content-Type"), "text/html") // the console, which holds nothing
		if r.status >= 500 && r.status != http.StatusNotImplemented || r.status < 300 && !isPublic {
			t.Errorf("%.400q: status %d, %.200s", text, r.status, r.body)
		}
	})
	if used := n.used("per-user", victim); used != 7 {
		t.Errorf("the victim has used %d, want 7", used)
	}
	n.spend("victim", 1) // not banned
	for _, r := range routes {
		if status := n.asOperator(r); status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests || status >= 500 && status != http.StatusServiceUnavailable {
			t.Errorf("an operator: %s %s: status %d", r.method, r.path, status)
		}
	}
	n.isWell(maxMiB)
}

func (r adminRoute) request(target string, headers ...string) string {
	host := "Host: 127.0.0.1"
	var lines []string
	for _, h := range headers {
		if strings.HasPrefix(h, "Host: ") {
			host = h
		} else {
			lines = append(lines, h)
		}
	}
	head := strings.Join(append([]string{r.method + " " + target + " HTTP/1.1", host}, lines...), "\r\n")
	if r.method == http.MethodGet || r.method == http.MethodHead {
		return head + "\r\n\r\n"
	}
	return fmt.Sprintf("%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", head, len(r.harm()), r.harm())
}

// spellings are other ways to write the requests for routes that are not public, without a token.
func (n *node) spellings(routes []adminRoute) (texts []string) {
	for _, r := range routes {
		if r.role == "anybody" {
			continue
		}
		last := r.path[strings.LastIndex(r.path, "/")+1:]
		for _, target := range []string{
			r.path + "/", "/" + r.path, r.path + "//", strings.ToUpper(r.path), r.path + "%20", r.path + "%00", r.path + ";x", r.path + "?token=" + operatorToken, r.path + "?access_token=" + operatorToken, r.path + "#x", r.path + ".json", r.path + "%2f",
			"/healthz/.." + r.path, "/healthz/%2e%2e" + r.path, "/healthz/..%2f" + r.path[1:], "/." + r.path, strings.Replace(r.path, "/", "/./", 1), strings.ReplaceAll(r.path, "/", `\`), strings.ReplaceAll(r.path, "/", "%2f"), "/%" + fmt.Sprintf("%x", r.path[1]) + r.path[2:], strings.TrimSuffix(r.path, last) + "%" + fmt.Sprintf("%x", last[0]) + last[1:],
			"http://127.0.0.1" + r.path, "http://evil.example" + r.path, "http://" + n.addresses["admin"] + r.path,
		} {
			texts = append(texts, r.request(target))
		}
		for _, method := range []string{"OPTIONS", "TRACE", "PATCH", "get", "PROPFIND", "CONNECT", "GET\t", "DELETE"} {
			other := r
			other.method = method
			texts = append(texts, other.request(r.path))
		}
	}
	return texts
}

// spend uses some of a user's limit.
func (n *node) spend(user string, times int) {
	n.t.Helper()
	for range times {
		res, err := n.client.Post(n.url("http", "/v1/check"), "application/json", strings.NewReader(fmt.Sprintf(`{"attributes": {"user": %q}}`, user)))
		if err != nil {
			n.t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if !strings.Contains(string(text), `"allowed":true`) {
			n.t.Errorf("a request of %s: %s", user, text)
		}
	}
}

// login begins a session and returns its cookie.
func (n *node) login(token string) string {
	n.t.Helper()
	res, err := n.client.Post(n.url("admin", "/v1/session"), "application/json", strings.NewReader(fmt.Sprintf(`{"token": %q}`, token)))
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		return c.Name + "=" + c.Value
	}
	n.t.Fatalf("no session: status %d", res.StatusCode)
	return ""
}

// asOperator returns the status that an operator is answered a request without a body with.
func (n *node) asOperator(r adminRoute) int {
	n.t.Helper()
	req, err := http.NewRequest(r.method, n.url("admin", r.path), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	res, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	res.Body.Close() // streams do not end
	return res.StatusCode
}
