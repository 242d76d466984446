package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
)

// A rule can match the longest names that an API accepts. Otherwise such a request would silently pass without
// any limit.
func TestRulesMatchTheLongestNames(t *testing.T) {
	t.Parallel()
	domain := "Edge/" + strings.Repeat("d", 250)
	name := strings.Repeat("n", 128)
	key := name[:125] // of a descriptor: a repeated key gets a number
	n := start(t, newUpstream(t).config(), rulesFile(t, fmt.Sprintf(`
rules:
  - {name: longest, match: {domain: %s, attributes: {%s: "*"}}, key: [%[2]s], limits: [1/1h]}
  - {name: longest-key, match: {domain: %[1]s, attributes: {%[3]s: "*"}}, key: [%[3]s], limits: [1/1h]}
`, domain, name, key)))
	ask := map[string]func(value string) bool{
		"http": func(value string) bool {
			return n.check(fmt.Sprintf(`{"domain": %q, "attributes": {%q: %q}}`, domain, name, value)).Allowed
		},
		"grpc": func(value string) bool {
			var v penstock.Verdict
			if err := n.grpc.Decide(t.Context(), &penstock.Call{Domain: domain, Cost: 1, Attributes: []penstock.Attribute{{Name: name, Value: value}}}, &v); err != nil {
				t.Error(err)
			}
			return v.Allowed
		},
		"envoy": func(value string) bool {
			return n.passed(n.post("/json", fmt.Sprintf(`{"domain": %q, "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, domain, key, value))) == 1
		},
	}
	for api, allowed := range ask {
		if !allowed(api) || allowed(api) {
			t.Errorf("%s: the first request must pass and the second must not", api)
		}
	}
	for _, body := range []string{
		fmt.Sprintf(`{"domain": %q, "attributes": {}}`, domain+"d"),
		fmt.Sprintf(`{"attributes": {%q: ""}}`, name+"n"),
	} {
		if a := n.post("/v1/check", body); a.StatusCode != 400 {
			t.Errorf("%.60s…: got %s, want 400", body, a.Status)
		}
	}
}
