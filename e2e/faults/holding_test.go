package faults

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A holding is what a node holds at a time. Where something cannot be seen it is 0.
type holding struct{ goroutines, files, mib int }

// Bounds of what a node may hold. Each is many times what it needs, and is exceeded by a leak of one goroutine or
// one file per request, or per connection of a fault that makes many.
const (
	spareGoroutines = 60  // more than just after its start, when all requests have ended
	spareFiles      = 40  // the same of open files
	callGoroutines  = 4   // more of them for each request in flight
	callFiles       = 2   // the same of open files
	mostMiB         = 500 // ever
)

func (h holding) max(other holding) holding {
	return holding{max(h.goroutines, other.goroutines), max(h.files, other.files), max(h.mib, other.mib)}
}

// holding asks the node itself.
func (n *node) holding() (h holding, ok bool) {
	reply, err := n.ask("/metrics")
	if err != nil {
		return h, false
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		return h, false
	}
	return readHolding(text), true
}

func readHolding(metrics []byte) (h holding) {
	for line := range bytes.Lines(metrics) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		n, err := strconv.ParseFloat(string(value), 64)
		if err != nil {
			continue
		}
		switch string(name) {
		case "go_goroutines":
			h.goroutines = int(n)
		case "process_open_fds":
			h.files = int(n)
		case "process_resident_memory_bytes":
			h.mib = int(n) >> 20
		}
	}
	return h
}

// heldPermits are what one node held over a load.
type heldPermits struct {
	before, most, after holding
	underWay            int // concurrent requests at all nodes, at most
}

// mistakes returns the bounds that were exceeded.
func (h *heldPermits) mistakes() (all []error) {
	for _, bound := range []struct {
		what       string
		held, most int
	}{
		{"goroutines when all calls had ended", h.after.goroutines, h.before.goroutines + spareGoroutines},
		{"open files when all calls had ended", h.after.files, h.before.files + spareFiles},
		{"goroutines", h.most.goroutines, h.before.goroutines + spareGoroutines + callGoroutines*h.underWay},
		{"open files", h.most.files, h.before.files + spareFiles + callFiles*h.underWay},
		{"MiB of memory", h.most.mib, mostMiB},
	} {
		if bound.held > bound.most {
			all = append(all, fmt.Errorf("a node held %d %s, at most %d may be", bound.held, bound.what, bound.most))
		}
	}
	return all
}

// A watch repeatedly measures what nodes hold.
type watch struct {
	nodes []*node
	found []heldPermits
	stop  chan struct{}
	ended sync.WaitGroup
}

func startWatch(t *testing.T, nodes []*node) *watch {
	w := &watch{nodes: nodes, found: make([]heldPermits, len(nodes)), stop: make(chan struct{})}
	for i, n := range nodes {
		var ok bool
		if w.found[i].before, ok = n.holding(); !ok {
			t.Fatal("a node does not say what it holds")
		}
		w.found[i].most = w.found[i].before
		w.ended.Go(func() { w.look(i) })
	}
	return w
}

func (w *watch) look(i int) {
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-every.C:
			if h, ok := w.nodes[i].holding(); ok {
				w.found[i].most = w.found[i].most.max(h)
			}
		}
	}
}

// end waits, up to within, until the running nodes have released what the load needed. The load must have ended.
func (w *watch) end(underWay int, within time.Duration) []heldPermits {
	close(w.stop)
	w.ended.Wait()
	var running []heldPermits
	for i, n := range w.nodes {
		found := &w.found[i]
		found.underWay = underWay
		n.HTTP.Close() // connections are not waited for
		for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
			h, ok := n.holding()
			if n.process.Exited() {
				break
			}
			if ok {
				found.after, found.most = h, found.most.max(h)
			}
			back := ok && h.goroutines <= found.before.goroutines+spareGoroutines && h.files <= found.before.files+spareFiles
			if back || time.Now().After(end) {
				running = append(running, *found)
				break
			}
		}
	}
	return running
}

// A leak is detected, and a node without one passes.
func TestHoldingsAreJudged(t *testing.T) {
	before := holding{goroutines: 40, files: 15, mib: 45}
	busy := holding{goroutines: 300, files: 120, mib: 80}
	for _, test := range []struct {
		name     string
		found    heldPermits
		mistakes int
	}{
		{"as it was", heldPermits{before: before, most: before, after: before}, 0},
		{"busy for a while", heldPermits{before: before, most: busy, after: before, underWay: 100}, 0},
		{"a few more connections are kept", heldPermits{before: before, most: busy, after: holding{70, 30, 80}, underWay: 100}, 0},
		{"a goroutine for each call stays", heldPermits{before: before, most: busy, after: holding{40 + 375, 15, 60}, underWay: 100}, 1},
		{"a file for each call stays", heldPermits{before: before, most: busy, after: holding{40, 15 + 375, 60}, underWay: 100}, 1},
		{"far more than calls need", heldPermits{before: before, most: busy, after: before, underWay: 2}, 2},
		{"memory", heldPermits{before: before, most: holding{40, 15, mostMiB + 1}, after: before}, 1},
		{"everything", heldPermits{before: before, most: holding{5000, 5000, 5000}, after: holding{5000, 5000, 5000}, underWay: 10}, 5},
	} {
		if found := test.found.mistakes(); len(found) != test.mistakes {
			t.Errorf("%s: %v, want %d mistakes", test.name, found, test.mistakes)
		}
	}
	text := "# HELP go_goroutines Number.\ngo_goroutines 12\nprocess_open_fds 3\nprocess_resident_memory_bytes 5.24288e+07\nother{a=\"b\"} x\n"
	if got, want := readHolding([]byte(text)), (holding{12, 3, 50}); got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

// A real node that is made to hold something for each request is detected: its clients leave connections open,
// which it keeps for two minutes.
func TestLeakIsNoticed(t *testing.T) {
	n := startNode(t, t.TempDir(), "nodes: 1", rulesFile(t, rulesText(1)))
	w := startWatch(t, []*node{n})
	for range 2 * max(spareFiles, spareGoroutines) {
		conn, err := net.Dial("tcp", n.doors["http"])
		must(t, err)
		defer conn.Close()
		_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		_, err = conn.Read(make([]byte, 1)) // it has answered, and waits for the next
		must(t, err)
	}
	found := w.end(1, time.Second)
	if len(found) != 1 || len(found[0].mistakes()) < 2 {
		t.Errorf("not noticed: %+v", found)
	}
}
