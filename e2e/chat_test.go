package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
)

const fingerprint = "X-Fingerprint: fp:challenge123:hash456"

// startDemo runs the program as on a first try, but on free ports.
func startDemo(t *testing.T) *node {
	t.Helper()
	return launch(t, t.TempDir(), "serve", "--demo", "--listen-gateway", "127.0.0.1:0", "--listen-http", "127.0.0.1:0",
		"--listen-grpc", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
}

func chat(n *node) int { return n.passed(n.get("gateway", "/api/v1/chat", fingerprint)) }

// Concurrent requests, with a common tool.
func TestApacheBench(t *testing.T) {
	t.Parallel()
	ab, err := exec.LookPath("ab")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("ab is not installed: apt-get install apache2-utils")
		}
		t.Skip("ab is not installed: apt-get install apache2-utils")
	}
	n := startDemo(t)
	out, err := exec.Command(ab, "-n", "50", "-c", "50", "-H", fingerprint, n.url("gateway", "/api/v1/chat")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{`Complete requests: +50\n`, `Non-2xx responses: +40\n`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("ab does not say %s:\n%s", want, out)
		}
	}
}

// The sample rules admit 10 a minute of 50 and of 100 at once.
func TestSimultaneousChats(t *testing.T) {
	t.Parallel()
	for _, simultaneous := range []int{50, 100} {
		n := startDemo(t)
		if passed := together(simultaneous, func(int) int { return chat(n) }); passed != 10 {
			t.Errorf("%d of %d passed, want 10", passed, simultaneous)
		}
	}
}

func TestEleventhFails(t *testing.T) {
	t.Parallel()
	n := startDemo(t)
	for i := range 11 {
		want := 1
		if i == 10 {
			want = 0
		}
		if chat(n) != want {
			t.Errorf("request %d: passed is not %d", i+1, want)
		}
	}
}

// A double click passes twice and counts once. It does not bypass the limit.
func TestDuplicateCountsOnce(t *testing.T) {
	t.Parallel()
	up := newUpstream(t)
	n := start(t, up.config(), rulesFile(t, `
attributes: {user: {header: X-User}}
rules: [{name: per-user, key: [user], limits: [{rate: 10/30d, algorithm: sliding_window_log}], dedup: {ttl: 24h}}]
`))
	for click := range 2 {
		if a := n.get("gateway", "/x", "X-User: u", "Idempotency-Key: order-1"); a.StatusCode != http.StatusOK {
			t.Errorf("click %d: %s: %s", click+1, a.Status, a.body)
		}
	}
	if v := n.peek("u"); v.used("per-user") != 1 {
		t.Errorf("two clicks count %d, want 1", v.used("per-user"))
	}
	if v := n.check(`{"attributes": {"user": "w"}, "id": "order-1"}`); v.Duplicate || v.used("per-user") != 1 {
		t.Errorf("the first call of another user: %+v", v)
	}
	if v := n.check(`{"attributes": {"user": "w"}, "id": "order-1"}`); !v.Duplicate || !v.Allowed || v.used("per-user") != 1 {
		t.Errorf("its repeat: %+v, want an allowed duplicate that counts nothing", v)
	}
	// A key sent repeatedly is charged like any request once the user's few duplicates are used up.
	passed := together(50, func(int) int { return n.passed(n.get("gateway", "/x", "X-User: v", "Idempotency-Key: order-2")) })
	if most := 10 + 1; passed < 10 || passed > most {
		t.Errorf("%d of 50 repeats passed, want from 10 to %d", passed, most)
	}
	if served := up.served("v"); served != passed {
		t.Errorf("%d repeats passed and %d were served", passed, served)
	}
}

// The short names of an older configuration keep their meaning.
func TestOlderConfiguration(t *testing.T) {
	t.Parallel()
	n := start(t, newUpstream(t).config(), rulesFile(t, `
attributes: {user: {header: X-User}}
rules:
  - name: older
    key: [user]
    requests_per_hour: 3
    enable_progressive_limits: true
    progressive_ban_durations: [7200, 86400]
`))
	for i, want := range []int{1, 1, 1, 0} {
		if got := askGateway(n, "u"); got != want {
			t.Errorf("request %d: passed %d, want %d", i+1, got, want)
		}
	}
	if v := n.check(callOf("u")); v.Reason != "banned" || v.Allowed {
		t.Errorf("after a denial: %+v, want a ban", v)
	}
	if a := n.get("gateway", "/x", "X-User: u"); !regexp.MustCompile(`"retry_after_seconds":7[12]\d\d`).Match(a.body) {
		t.Errorf("banned: %s: %s", a.Status, a.body)
	}
}
