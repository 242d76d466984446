package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
)

const historyRules = `
attributes: {user: {header: X-User}}
rules: [{name: per-user, key: [user], limits: [{rate: 2/1h, algorithm: sliding_window_log}]}]
`

// The history has the requests of all nodes, also of one that has ended, in PostgreSQL or in the files of each node. It
// says when nodes started and stopped, when rules changed and when Redis failed.
func TestHistoryOfNodes(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"postgres": true, "files": false} {
		t.Run(name, func(t *testing.T) {
			redis, rules, database := redistest.Start(t), rulesFile(t, historyRules), ""
			if shared {
				var err error
				if database, err = pgtest.Start(t).Database(t.Context()); err != nil {
					t.Fatal(err)
				}
				apply(t, database, historyRules)
				rules = "rules: {database: '" + database + "', poll_interval: 100ms}"
			}
			config := []string{onRedis("single", redis.Addr), rules, newUpstream(t).config()}
			north := start(t, append(config, "node_name: north")...)
			dir := t.TempDir()
			south := startIn(t, dir, append(config, "node_name: south")...)
			for range 5 {
				askGateway(north, "one")
				askGateway(south, "other")
			}
			counts := func(n *node, allowed, denied int64) func() bool {
				return func() bool {
					h := operator[admin.History](n, "/v1/history?last=1h")
					return h.Total.Allowed == allowed && h.Total.Denied == denied && len(h.Rules) == 1 && h.Rules[0].Total == h.Total && h.Problem == ""
				}
			}
			eventually(t, "both nodes have the history of both", counts(north, 4, 6))
			eventually(t, "both nodes have the history of both", counts(south, 4, 6))

			testAnnotations(t, north, south)

			south.terminate()
			south.awaitEnd()
			if shared {
				eventually(t, "the history of a node that has ended is in the database", counts(north, 4, 6))
				apply(t, database, historyRules+"# changed\n")
			}
			south = startIn(t, dir, append(config, "node_name: south")...)
			askGateway(south, "third")
			eventually(t, "so are its requests before and after", counts(north, 5, 6))
			if err := redis.Kill(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "what happened is marked", func() bool {
				h, kinds := operator[admin.History](south, "/v1/history?last=1h"), map[string]int{}
				for _, m := range h.Marks {
					if m.Node == "south" || m.Node == "" {
						kinds[m.Kind]++
					}
				}
				return kinds["start"] == 2 && kinds["stop"] == 1 && kinds["circuit_open"] >= 1
			})
			if shared {
				eventually(t, "a change of rules is marked", func() bool {
					for _, m := range operator[admin.History](north, "/v1/history?last=1h").Marks {
						if m.Kind == "rules" && m.Text == "version 2" {
							return true
						}
					}
					return false
				})
			}
			h := operator[admin.History](north, "/v1/history?last=24h&node=north")
			if h.Series[0] != nil || h.Total.Allowed != 2 || h.Total.Denied != 3 {
				t.Errorf("of north alone: %+v, before the start %+v", h.Total, h.Series[0])
			}
		})
	}
}

// testAnnotations writes on one node, and reads and deletes on another.
func testAnnotations(t *testing.T, north, south *node) {
	t.Helper()
	annotated := func(n *node, text string) bool {
		return slices.ContainsFunc(operator[admin.History](n, "/v1/history?last=1h").Marks, func(m admin.Mark) bool {
			return m.Kind == "annotation" && string(m.Text) == text && m.Author != ""
		})
	}
	const text = "blocked scraper, ticket 123"
	var added admin.Annotation
	if out := north.operate("annotations", "add", text, "-o", "json"); json.Unmarshal([]byte(out.stdout), &added) != nil {
		t.Fatalf("penstock annotations add: exit status %d: %s%s", out.code, out.stdout, out.stderr)
	}
	for _, n := range []*node{north, south} {
		eventually(t, "every node shows what was written on one", func() bool { return annotated(n, text) })
	}
	eventually(t, "every node lists it", func() bool { return strings.Contains(south.operate("annotations", "list").stdout, added.ID) })
	eventually(t, "another node deletes it", func() bool {
		south.operate("annotations", "delete", added.ID) // the other node may not answer in time
		return !annotated(north, text)
	})
}
