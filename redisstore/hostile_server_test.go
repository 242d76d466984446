package redisstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// A server that sends what it must not, or anybody between, costs a request its decision and the process nothing: in
// the handshake, in place of decisions, and in place of what servers tell about sentinels and clusters.
func TestHostileServer(t *testing.T) {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Hour}.MustCompile()
	topology := []string{"CLUSTER", "SENTINEL", "ROLE", "SUBSCRIBE", "UNSUBSCRIBE"}
	for mode, told := range map[redisstore.Mode]string{redisstore.Single: "standalone", redisstore.Sentinel: "sentinel", redisstore.Cluster: "cluster"} {
		for point, isHostile := range map[string]func(name string) bool{
			"handshake": func(name string) bool { return name == "HELLO" },
			"decisions": func(name string) bool { return strings.HasPrefix(name, "EVAL") },
			"topology":  func(name string) bool { return slices.Contains(topology, name) },
			"commands":  func(name string) bool { return name != "HELLO" && !slices.Contains(topology, name) },
		} {
			if mode == redisstore.Single && point == "topology" {
				continue
			}
			t.Run(string(mode)+"/"+point, func(t *testing.T) {
				t.Parallel()
				for name, reply := range redistest.HostileReplies() {
					var server *redistest.Fake
					server = redistest.StartFake(t, func(words []string) string {
						if isHostile(strings.ToUpper(words[0])) {
							return reply
						}
						return server.Honest(told, words)
					})
					o := redisstore.Options{Addresses: []string{server.Addr}, Mode: mode, Timeout: 200 * time.Millisecond}
					if mode == redisstore.Sentinel {
						o.Master = "m"
					}
					store, err := redisstore.New(o)
					if err != nil {
						t.Fatal(err)
					}
					store.Ping(t.Context())
					var out storage.Outcome
					err = store.Take(t.Context(), one(0, stranger(), charge(m, 1)), &out)
					if err == nil {
						t.Errorf("%s: a decision", name)
					}
					if kind := redisstore.KindOf(err); name == "length $-5" && point == "decisions" && kind != redisstore.KindInvalid {
						t.Errorf("%s: an error of kind %q: %v", name, kind, err)
					}
					store.Size(t.Context())
					store.Close()
				}
			})
		}
	}
}
