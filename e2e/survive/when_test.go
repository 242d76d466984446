//go:build linux

package survive

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Rules whose expressions a client can make fail: by a value that is not a number, or by one that is
// longer than the expression reads.
const failingRules = `
attributes: {n: {header: X-N}, tokens: {header: X-Tokens}}
rules:
  - {name: numbers, match: {path: /numbers, when: int(n) >= 0}, key: [], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: long, match: {path: /long, when: 'n.contains(path) || n != "" || n.matches("^((a|b)*(c|d)*(e|f)*){6}$")'}, key: [], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: skipped, match: {path: /skipped, when: int(n) >= 0, on_error: skip}, key: [], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: denied, match: {path: /denied, when: int(n) >= 0, on_error: deny}, key: [], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - name: lifted
    match: {path: /lifted}
    key: []
    limits: [{rate: 3/year, algorithm: fixed_window}]
    overrides:
      - {match: {when: int(n) >= 0}, limits: unlimited}
      - {match: {when: int(n) >= 0}, limits: [{rate: 1000/year, algorithm: fixed_window}]}
  - {name: tokens, match: {path: /tokens}, key: [], cost: {attribute: tokens, max: 100}, limits: [{rate: 3/year, algorithm: fixed_window}]}
`

// A client that makes an expression fail is limited anyway, unless on_error says otherwise, and
// the failures of each rule are counted.
func TestExpressionsThatFail(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, func(_ http.ResponseWriter, req *http.Request) {})
	n := start(t, setup{rules: failingRules, config: fmt.Sprintf("upstreams: [{url: %q}]\n", upstream)})
	padding := strings.Repeat("a", 8<<10)
	for _, test := range []struct {
		path     string
		header   string
		values   []string
		statuses string
	}{
		{"/numbers", "X-N", []string{"x", "", "1.5", "99999999999999999999", padding}, "200 200 200 429 429"},
		{"/long", "X-N", []string{padding, padding, padding, padding, padding}, "200 200 200 429 429"},
		{"/skipped", "X-N", []string{"x", "x", "x", "x", "1"}, "200 200 200 200 200"},
		{"/denied", "X-N", []string{"x", padding, "1", "1", "x"}, "403 403 200 200 403"},
		{"/lifted", "X-N", []string{"x", "", "1.5", "x", padding}, "200 200 200 429 429"},
		{"/lifted", "X-N", []string{"1"}, "200"},
		{"/tokens", "X-Tokens", []string{"0", "-9", "x", "0", padding}, "200 200 200 429 429"},
	} {
		var statuses []string
		for _, value := range test.values {
			req, err := http.NewRequest(http.MethodGet, n.url("gateway", test.path), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(test.header, value)
			res, err := n.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			statuses = append(statuses, fmt.Sprint(res.StatusCode))
		}
		if got := strings.Join(statuses, " "); got != test.statuses {
			t.Errorf("%s: %s; want %s", test.path, got, test.statuses)
		}
	}
	want := map[string]string{"numbers": "5", "long": "5", "skipped": "4", "denied": "3", "lifted": "10"}
	if got := failures(n); !maps.Equal(got, want) {
		t.Errorf("failures by rule: %v; want %v", got, want)
	}
	n.isWell(maxMiB)
}

// failures returns how often each rule could not be evaluated, from the metrics.
func failures(n *node) map[string]string {
	n.t.Helper()
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^penstock_rule_failures_total\{rule="(\w+)"\} (\d+)$`).FindAllStringSubmatch(n.metrics(), -1) {
		found[m[1]] = m[2]
	}
	return found
}

// Expressions that a client could make expensive are refused before any node has them.
func TestExpensiveExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for when, says := range map[string]string{
		`path.matches('` + strings.Repeat("a.*", 253) + `')`: "instructions; at most 128",
		`path.matches(host)`: "must be a literal",
		`(path + path + path + path).contains(path + host + path + host)`: "units for attributes of 1024 bytes; at most 65536",
	} {
		document := filepath.Join(t.TempDir(), "rules.yaml")
		write(t, document, fmt.Sprintf("rules: [{name: a, match: {when: %q}, key: [], limits: [1/1m]}]", when))
		out, err := exec.Command(program, "rules", "validate", document).CombinedOutput()
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%.60s: %v, %s; want %q", when, err, out, says)
		}
	}
}
