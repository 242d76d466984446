//go:build linux

package survive

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	openFiles = 256
	crowd     = 2000

	// maxMiB is what a node may hold at its highest in these tests. An idle one holds some 35 MiB;
	// what it must not do is grow with what clients would like it to hold.
	maxMiB = 256
)

// A process that can open files for a tenth of its clients serves all of them: it accepts no more than
// it can serve, and no client keeps a connection while others wait.
func TestCrowdIsServedWithFewFiles(t *testing.T) {
	t.Parallel()
	needFiles(t, 2*crowd)
	server := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	n := start(t, setup{files: openFiles, config: fmt.Sprintf(`
upstreams: [{url: %q}]
gateway: {timeouts: {read_header: 30s, idle: 30s}}
`, server)})

	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range crowd {
		all.Go(func() {
			l := dial(t, n.addresses["gateway"])
			if l == nil {
				return
			}
			r, err := l.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if err != nil {
				t.Errorf("a client was not served: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[r.status]++
		})
	}
	all.Wait()
	if statuses[200] != crowd {
		t.Errorf("statuses %v, want %d times 200", statuses, crowd)
	}
	n.isWell(maxMiB)
	if counted := n.used("all", map[string]string{}); counted != crowd {
		t.Errorf("counted %d requests of %d", counted, crowd)
	}
}

// Clients that connect and send nothing delay others on their own listener only, and leave nothing behind when
// they disconnect.
func TestSilentCrowds(t *testing.T) {
	t.Parallel()
	needFiles(t, 2*crowd)
	server := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	n := start(t, setup{files: openFiles, config: fmt.Sprintf("upstreams: [{url: %q}]\n", server)})
	for _, door := range []string{"gateway", "http", "grpc", "admin"} {
		lines := connectCrowd(t, n.addresses[door])
		eventually(t, "the process has taken in what it may", func() bool { return n.files() > openFiles/8 })
		if door == "gateway" {
			eventually(t, "the decision API answers beside a crowd at the gateway", func() bool { return n.status("http", "/healthz") == 200 })
		} else {
			eventually(t, "the gateway serves beside a crowd at "+door, func() bool { return n.status("gateway", "/") == 200 })
		}
		for _, l := range lines {
			l.Close()
		}
		eventually(t, "the gateway serves after a crowd at "+door, func() bool { return n.status("gateway", "/") == 200 })
		n.isWell(maxMiB)
	}
}

// files returns how many the process has open.
func (n *node) files() int {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.process.Pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	return len(open)
}

// connectCrowd connects clients that send nothing. Those that the process does not accept wait in the
// kernel, which may let fewer wait.
func connectCrowd(t *testing.T, address string) (lines []net.Conn) {
	t.Helper()
	for len(lines) < crowd {
		conn, err := net.DialTimeout("tcp", address, 10*time.Second)
		if err != nil {
			break
		}
		t.Cleanup(func() { conn.Close() })
		lines = append(lines, conn)
	}
	if len(lines) < openFiles {
		t.Fatalf("only %d clients could connect", len(lines))
	}
	return lines
}

// needFiles skips a test if there are not enough files for its clients.
func needFiles(t *testing.T, count uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < count {
		t.Skipf("the test may open %d files and needs %d: see ulimit -n", limit.Cur, count)
	}
}
