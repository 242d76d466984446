package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
)

// A node that ends returns the unused quota of its leases: Redis has counted what passed, and what had expired
// before. Leases live for a second, so a delayed machine may have none left to return; then the test tries again.
func TestPermitsAreGivenBack(t *testing.T) {
	t.Parallel()
	const rules = `
attributes: {user: {header: X-User}}
rules: [{name: per-user, key: [user], consistency: leased, limits: [{rate: 1000000/30d, algorithm: fixed_window}]}]
`
	config := []string{rulesFile(t, rules), onRedis("single", redistest.Start(t).Addr), newUpstream(t).config()}
	witness := start(t, config...)
	witness.awaitStore()
	for _, user := range strings.Split("abcdefghij", "") {
		n := start(t, config...)
		n.awaitStore()
		passed := int64(0)
		eventually(t, "permits decide", func() bool {
			call := newCall(user)
			var v penstock.Verdict
			if err := n.http.Decide(t.Context(), &call, &v); err != nil || !v.Allowed {
				t.Fatalf("%v: %+v", err, v)
			}
			passed++
			return v.Quality == penstock.QualityLeased
		})
		n.terminate()
		n.awaitEnd()
		said := n.readParting()
		if used := witness.peek(user).used("per-user"); used != passed+said.Expired {
			t.Errorf("%d were counted, and %d passed; the node said %+v", used, passed, said)
		}
		if said.Returned > 0 {
			return
		}
	}
	t.Error("no permits were given back by any of ten nodes")
}

// A leaseReport is what a node reports about its leases when it ends.
type leaseReport struct{ Taken, Expired, Returned int64 }

func (n *node) readParting() (last leaseReport) {
	n.t.Helper()
	file, err := os.Open(filepath.Join(n.dir, "log"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer file.Close()
	found := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.Contains(lines.Text(), "leases returned") {
			found = json.Unmarshal(lines.Bytes(), &last) == nil
		}
	}
	if !found {
		n.t.Error("the node said nothing of its permits")
	}
	return last
}
