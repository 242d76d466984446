package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/redistest"
)

// operator asks the admin API of a node, and reads the answer.
func operator[T any](n *node, path string) (found T) {
	n.t.Helper()
	n.read(n.get("admin", path, "Authorization: Bearer "+adminToken), &found)
	return found
}

// Three nodes share a Redis. Each one reports the requests of all, with the names of clients that only another node has
// seen, and of one node if asked. Redis carries no name of a client on the way.
func TestNumbersOfAllNodes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := []string{onRedis("single", server.Addr), rulesFile(t, `
attributes: {user: {header: X-User}}
rules: [{name: per-user, key: [user], limits: [{rate: 2/1h, algorithm: sliding_window_log}]}]
`)}
	var nodes []*node
	for _, name := range []string{"north", "south", "west"} {
		nodes = append(nodes, start(t, append(config, newUpstream(t).config(), "node_name: "+name)...))
	}
	north, south, west := nodes[0], nodes[1], nodes[2]
	heard := listenToAll(t, server.Addr)
	for _, n := range nodes {
		eventually(t, "the nodes know each other", func() bool { return len(operator[admin.Nodes](n, "/v1/nodes").Nodes) == 3 })
	}
	for i, n := range nodes { // users of their own, and one that all see
		for range 5 {
			n.get("gateway", "/x", fmt.Sprintf("X-User: user-of-%d", i))
		}
		n.get("gateway", "/x", "X-User: everywhere")
	}

	for _, n := range nodes {
		eventually(t, "a node reports the requests of all", func() bool {
			s := operator[admin.Stats](n, "/v1/stats?last=15m")
			return s.Total.Allowed == 8 && s.Total.Denied == 10 && len(s.Nodes) == 3 && answers(s.Nodes) == 3 &&
				len(s.Rules) == 1 && s.Rules[0].Total == s.Total && s.Rules[0].DistinctKeys == 4 && len(s.Rules[0].Top) == 4 && s.Latency.P99 > 0
		})
	}
	// A node that is slow for a moment does not answer in time: these are asked again.
	eventually(t, "the most denied clients have names", func() bool {
		s := operator[admin.Stats](north, "/v1/stats?last=15m")
		denied := map[string]int64{}
		for _, k := range s.Rules[0].Top {
			denied[k.Key["user"]] = k.Denied
		}
		return maps.Equal(denied, map[string]int64{"user-of-0": 3, "user-of-1": 3, "user-of-2": 3, "everywhere": 1})
	})
	eventually(t, "north reports the numbers of south alone", func() bool {
		s := operator[admin.Stats](north, "/v1/stats?last=15m&node=south")
		return s.Total.Allowed+s.Total.Denied == 6 && len(s.Nodes) == 1 && s.Nodes[0].Name == "south"
	})
	if none := operator[admin.Stats](north, "/v1/stats?node=nowhere"); none.Total.Allowed != 0 || len(none.Nodes) != 0 {
		t.Errorf("of a node that does not exist: %+v of %+v", none.Total, none.Nodes)
	}
	eventually(t, "north knows the requests of a user that only west has seen", func() bool {
		recent := operator[admin.Events](north, "/v1/events/recent?attribute=user&value=user-of-2").Events
		return len(recent) == 5 && recent[0].Node == "west" && recent[0].Attributes["user"] == "user-of-2"
	})
	tailed := tailOf(t, north, "/v1/events?attribute=user&value=late")
	eventually(t, "a tail of north shows what west and south decide", func() bool {
		south.get("gateway", "/x", "X-User: late")
		west.get("gateway", "/x", "X-User: late")
		seen := tailed()
		return strings.Contains(seen, `"node":"south"`) && strings.Contains(seen, `"node":"west"`)
	})

	if got := heard(); !strings.Contains(got, "pen:bus") || strings.Contains(got, "user-of") || strings.Contains(got, "everywhere") || strings.Contains(got, "per-user") {
		t.Errorf("Redis carried %.2000q", got)
	}
	if keys := redisKeys(t, server.Addr); strings.Contains(keys, "bus") {
		t.Errorf("messages are stored in Redis: %s", keys)
	}

	// A node that does not answer is named, and the numbers of the others are there.
	if err := west.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer west.cmd.Process.Signal(syscall.SIGCONT)
	eventually(t, "north says that west does not answer", func() bool {
		s := operator[admin.Stats](north, "/v1/stats?last=15m")
		gone := len(s.Nodes) == 2 // it sent no heartbeat for ten seconds
		return answers(s.Nodes) == 2 && (gone || s.Nodes[2].Name == "west" && strings.HasPrefix(s.Nodes[2].Problem, "no answer"))
	})
}

func answers(nodes []admin.AskedNode) (n int) {
	for _, one := range nodes {
		if one.Answered {
			n++
		}
	}
	return n
}

func redisKeys(t *testing.T, address string) string {
	t.Helper()
	keys, err := redistest.Command(address, "KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// listenToAll returns what Redis has carried on any channel so far.
func listenToAll(t *testing.T, address string) (heard func() string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write([]byte("PSUBSCRIBE *\r\n")); err != nil {
		t.Fatal(err)
	}
	return gather(func(add func(string)) {
		for data := make([]byte, 64<<10); ; {
			n, err := conn.Read(data)
			add(string(data[:n]))
			if err != nil {
				return
			}
		}
	})
}

// tailOf follows a stream of the admin API, and returns what has arrived so far.
func tailOf(t *testing.T, n *node, path string) func() string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url("admin", path), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	answer, err := new(http.Client).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return gather(func(add func(string)) {
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Valid([]byte(data)) {
				add(data + "\n")
			}
		}
	})
}

// gather collects text in the background.
func gather(read func(add func(string))) func() string {
	var mu sync.Mutex
	var all strings.Builder
	go read(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		all.WriteString(text)
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}
