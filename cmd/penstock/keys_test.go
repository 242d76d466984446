package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

const keyRules = `
attributes: {user: {header: X-User}}
rules:
  - name: per-user
    match: {path: /search}
    key: [user]
    limits: [{rate: 3/1d, algorithm: sliding_window_log}, {rate: 5/1h, algorithm: token_bucket}]
    penalty: {after: 100, within: 1h, bans: [1m]}
  - {name: site, key: [], limits: [{rate: 1000/1d, algorithm: sliding_window_log}]}
`

// keys runs a keys command against the process.
func (p *process) keys(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: []string{"PENSTOCK_ADMIN_SERVER=http://" + p.addresses["admin"], "PENSTOCK_TOKEN=" + p.token(t)}}
	code = a.run(t.Context(), append([]string{"keys", "--timeout", nodetest.Timeout.String()}, args...))
	return code, out.String(), errs.String()
}

var (
	someTime = regexp.MustCompile(`in [0-9hms]+|20\d\d-\d\d-\d\dT[0-9:]+Z`)
	spaces   = regexp.MustCompile(` {3,}`)
)

// Operators show, reset, ban and unban a client with the documented commands.
func TestKeysCommands(t *testing.T) {
	t.Parallel()
	file := nodetest.RulesFile(t, keyRules)
	for name, yaml := range map[string]string{
		"memory": "", "redis": nodetest.OnRedis("single", redistest.Start(t).Addr), "cluster": nodetest.OnRedis("cluster", redistest.StartCluster(t, 3).Addrs...),
	} {
		t.Run(name, func(t *testing.T) {
			p := startServe(t, yaml+"rules: {file: "+file+"}")
			nodetest.Eventually(t, "the store is connected", func() bool { return p.status(t, p.token(t)).Store.Connected })
			says := func(want string, args ...string) {
				t.Helper()
				code, out, errs := p.keys(t, args...)
				got := spaces.ReplaceAllString(someTime.ReplaceAllString(out, "…"), "  ")
				if want = strings.TrimPrefix(want, "\n"); code != exitYes || got != want {
					t.Errorf("keys %v: exit status %d: %s\n%swant\n%s", args, code, errs, got, want)
				}
			}
			search := func() bool { return p.allows(t, `{"user": "u1", "path": "/search"}`) }
			for i := range 4 {
				if search() != (i < 3) {
					t.Fatalf("call %d", i)
				}
			}
			says(`
RULE  KEY  USED  LIMIT  LEFT  RESETS
per-user:1d  user="u1"  3  3  0  …
per-user:1h  user="u1"  3  5  2  …
per-user: 1 strike, 0 bans so far
`, "show", "user=u1")
			says("reset  per-user  user=\"u1\"\n", "reset", "user=u1")
			if !search() {
				t.Error("denied after a reset")
			}
			says("banned  per-user  user=\"u1\" until …\n", "ban", "user=u1", "--for", "1h")
			if search() {
				t.Error("allowed though banned")
			}
			if _, out, _ := p.keys(t, "show", "user=u1"); !strings.Contains(out, "per-user: banned until 20") {
				t.Errorf("got:\n%s", out)
			}
			says("lifted  per-user  user=\"u1\"\n", "lift", "user=u1", "--rule", "per-user")
			if !search() {
				t.Error("denied after the ban was lifted")
			}

			code, out, errs := p.keys(t, "list", "per-user", "-o", "json")
			var listed admin.Keys
			if err := json.Unmarshal([]byte(out), &listed); err != nil || code != exitYes || len(listed.Keys) != 1 || listed.Keys[0].Key["user"] != "u1" {
				t.Errorf("list: %d %v %s %s", code, err, out, errs)
			}
			if _, out, errs := p.keys(t, "list", "per-user"); !strings.Contains(out, `user="u1"`) || !strings.HasPrefix(out, "SUBJECT") || errs != "1 key\n" {
				t.Errorf("got:\n%s%s", out, errs)
			}
			says("reset  site  [] (one for all)\n", "reset", "--rule", "site")
		})
	}
}

func TestKeysRefused(t *testing.T) {
	t.Parallel()
	p := startServe(t, "rules: {file: "+nodetest.RulesFile(t, keyRules)+"}\nadmin: {viewer_token: 0123456789abcdef}")
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"show", "colour=red"}, exitNo, "no rule has a key of these attributes"},
		{[]string{"list", "nonsense"}, exitNo, `there is no rule "nonsense"`},
		{[]string{"ban", "--rule", "site", "--for", "1h"}, exitNo, "add a penalty to a rule"},
		{[]string{"show", "user=u1", "--token", "nonsense"}, exitFailed, "unknown token"},
		{[]string{"reset", "user=u1", "--token", "0123456789abcdef"}, exitNo, "requires the role operator, yours is viewer"},
		{[]string{"show", "user=u1", "--token", "0123456789abcdef"}, exitNo, "requires the role operator, yours is viewer"},
		{[]string{"list", "site", "--token", "0123456789abcdef"}, exitYes, ""},
		{[]string{"show", "user=u1", "--server", "http://" + p.addresses["http"]}, exitFailed, "is --server the address of listen.admin?"},
	} {
		if code, _, errs := p.keys(t, test.args...); code != test.code || !strings.Contains(errs, test.says) {
			t.Errorf("%v: exit status %d: %s", test.args, code, errs)
		}
	}
}

// While the store does not answer there is nothing to show, and the exit status is not that of "no".
func TestKeysWithoutTheStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	p := startServe(t, nodetest.OnRedis("single", redis.Addr)+"rules: {file: "+nodetest.RulesFile(t, keyRules)+"}")
	for _, args := range [][]string{{"show", "user=u1"}, {"list", "per-user"}, {"reset", "user=u1"}, {"ban", "user=u1", "--for", "1h"}} {
		if code, _, errs := p.keys(t, args...); code != exitFailed || !strings.Contains(errs, "store unavailable") {
			t.Errorf("%v: exit status %d: %s", args, code, errs)
		}
	}
}
