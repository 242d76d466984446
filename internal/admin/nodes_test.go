package admin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/membership"
)

// known is a node that was last heard from some time ago.
func known(name string, ago time.Duration, version int64, checksum string) membership.KnownNode {
	return membership.KnownNode{ID: "ID-" + name, Heard: time.Now().Add(-ago), Node: &membership.Node{
		Name: name, Version: "1.0", Started: time.Unix(1_000_000, 0), Rules: version, Checksum: checksum, Quality: membership.Exact, Calls: 2, Denied: 1,
	}}
}

// Each node is shown with how its rules compare to the newest ones.
func TestNodes(t *testing.T) {
	t.Parallel()
	begun := time.Now() // the nodes were heard just before, however long the test takes
	here := func(version int64, checksum string) membership.KnownNode {
		k := known("here", 0, version, checksum)
		k.Self = true
		return k
	}
	for what, row := range map[string]struct {
		nodes []membership.KnownNode
		want  []string
	}{
		"alone":                {[]membership.KnownNode{here(3, "c")}, []string{"current"}},
		"one is behind":        {[]membership.KnownNode{here(3, "c"), known("a", 0, 2, "b")}, []string{"current", "behind"}},
		"this one is":          {[]membership.KnownNode{here(1, "a"), known("a", 0, 2, "b")}, []string{"behind", "current"}},
		"the same rules again": {[]membership.KnownNode{here(4, "a"), known("a", 0, 1, "a")}, []string{"current", "current"}},
		"without numbers":      {[]membership.KnownNode{here(0, "a"), known("a", 0, 0, "b"), known("b", 0, 0, "a")}, []string{"current", "different", "current"}},
		"other origins":        {[]membership.KnownNode{here(0, "a"), known("a", 0, 7, "b")}, []string{"different", "current"}},
		"the newest is silent": {[]membership.KnownNode{here(3, "c"), known("a", time.Hour, 9, "z")}, []string{"current", "different"}},
	} {
		s := newTestAdmin(t, setup{nodes: row.nodes})
		s.clock.set(begun)
		var got []string
		for _, n := range get[admin.Nodes](s, "GET", "/v1/nodes", "").Nodes {
			got = append(got, n.About.Rules)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", what, got, row.want)
		}
	}

	s := newTestAdmin(t, setup{nodes: []membership.KnownNode{here(3, "c"), known("a", time.Hour, 3, "c"), {ID: "OLD", Heard: begun}}})
	s.clock.set(begun)
	w := s.serve(s.request("GET", "/v1/nodes", "", "Authorization", "Bearer "+viewerToken))
	var told admin.Nodes
	if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil || w.Code != http.StatusOK || len(told.Nodes) != 3 {
		t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	if n := told.Nodes; !n[0].Self || n[0].Silent || n[0].About.Name != "here" || n[0].About.Calls != 2 || n[1].Self || !n[1].Silent || n[1].Heard < 60 || n[2].About != nil || n[2].Silent {
		t.Errorf("%s", w.Body)
	}
	if w := s.serve(s.request("GET", "/v1/nodes", "")); w.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", w.Code)
	}
}

// The overview is sent again and again, with the responses of the other routes, until the session or the server ends.
func TestOverview(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.door.LookEvery(5 * time.Millisecond)
	server := httptest.NewServer(s.door)
	defer server.Close()
	cookie := s.login(viewerToken)
	one, other := s.stream(t, server.URL, "/v1/overview?last=5m", with(cookie)), s.stream(t, server.URL, "/v1/overview", bearer(operatorToken))
	search(s, "u1")
	for allowed := int64(0); allowed != 1; { // the test's timeout is the bound
		var told admin.Stats
		if err := json.Unmarshal([]byte(one.until("stats", "data: ")), &told); err != nil || len(told.Series) != 60 {
			t.Fatalf("%v: %+v", err, told)
		}
		allowed = told.Total.Allowed
	}
	var status admin.Status
	if err := json.Unmarshal([]byte(one.until("status", "data: ")), &status); err != nil || !status.Ready {
		t.Errorf("%v: %+v", err, status)
	}
	var nodes admin.Nodes
	if err := json.Unmarshal([]byte(one.until("nodes", "data: ")), &nodes); err != nil || len(nodes.Nodes) != 1 || nodes.Nodes[0].About.Name != "here" {
		t.Errorf("%v: %+v", err, nodes)
	}

	r := s.request("DELETE", "/v1/session", "")
	r.AddCookie(cookie)
	s.serve(r)
	if _, err := io.Copy(io.Discard, one.answer.Body); err != nil {
		t.Errorf("the stream does not end well with its session: %v", err)
	}
	other.until("nodes", "data: ") // it continues
	s.door.Drain()
	if _, err := io.Copy(io.Discard, other.answer.Body); err != nil {
		t.Errorf("the stream does not end well with the server: %v", err)
	}
}

func TestOverviewRefuses(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	server := httptest.NewServer(s.door)
	defer server.Close()
	defer s.door.Drain()
	s.refused("GET", "/v1/overview?last=2h", "", 400, admin.Invalid, `"at":"last"`)
	s.refused("GET", "/v1/overview?colour=red", "", 400, admin.Invalid, `"colour"`)
	if w := s.serve(s.request("GET", "/v1/overview", "")); w.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", w.Code)
	}
	for range 12 {
		s.stream(t, server.URL, "/v1/overview", bearer(viewerToken))
	}
	if w := s.serve(s.request("GET", "/v1/overview", "", "Authorization", "Bearer "+viewerToken)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("viewers take the streams that are kept for operators: %d", w.Code)
	}
	for range 4 {
		s.stream(t, server.URL, "/v1/overview", bearer(operatorToken))
	}
	s.refused("GET", "/v1/overview", "", 503, admin.Unavailable, "too many streams")
}
