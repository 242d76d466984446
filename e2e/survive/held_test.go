//go:build linux

package survive

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

// Requests of the flooded rule depart in an hour at the earliest, those of the other 50 ms apart.
const heldRules = `
rules:
  - {name: flooded, match: {path: /flooded}, key: [], limits: [{rate: 1/h, queue: 8000, algorithm: leaky_bucket}]}
  - {name: other, match: {path: /other}, key: [], limits: [{rate: 20/s, queue: 100, algorithm: leaky_bucket}]}
`

// heldScale makes the flood and the queue larger in the long version, up to the default of 128 MiB.
var heldScale = min(longer, 4)

// heldFloods are requests that take much memory while held, and how many half of the queue takes. With
// held_bytes at 32 MiB a rule has 16 MiB.
var heldFloods = []struct {
	name, text string
	sent, most int
}{
	{"without a body", "GET /flooded HTTP/1.1\r\nHost: a\r\n\r\n", 1500, 1024},
	{"with a body", "POST /flooded HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n" + strings.Repeat("x", 64<<10), 1500, 820},
	{"with a long header", "GET /flooded HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("x", 15<<10) + "\r\n\r\n", 1000, 529},
	{"with many headers", "GET /flooded HTTP/1.1\r\nHost: a\r\n" + manyHeaders(1500) + "\r\n", 400, 81},
	{"of HTTP/2", "", 1000, 205},
}

func manyHeaders(count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "a%x:\r\n", i)
	}
	return b.String()
}

// Thousands of requests held by one rule take a bounded amount of memory and leave room for another
// rule, whose requests are held and served in their turn. Requests beyond are answered with 503.
func TestHeldRequestsAreBounded(t *testing.T) {
	t.Parallel()
	needFiles(t, 2*crowd*uint64(heldScale))
	for _, flood := range heldFloods {
		flood.sent, flood.most = flood.sent*heldScale, flood.most*heldScale
		t.Run(flood.name, func(t *testing.T) {
			var reached atomic.Int64
			upstream := newUpstream(t, func(_ http.ResponseWriter, req *http.Request) {
				io.Copy(io.Discard, req.Body)
				reached.Add(1)
			})
			n := start(t, setup{rules: heldRules, config: fmt.Sprintf("gateway: {h2c: true, limits: {held_bytes: %dMiB, connections: 16000}}\nupstreams: [{url: %q}]\n", 32*heldScale, upstream)})
			n.status("gateway", "/flooded") // the one that need not wait
			if flood.text == "" {
				n.holdStreams(flood.sent)
			} else {
				n.holdLines(flood.text, flood.sent)
			}
			eventually(t, "all are held or refused", func() bool { return n.metric("penstock_held_requests")+n.refused("flooded") >= flood.sent })
			if held := n.metric("penstock_held_requests"); held > flood.most || held < flood.most*9/10 {
				t.Errorf("%d of %d are held, want up to %d", held, flood.sent, flood.most)
			}
			if bytes := n.metric("penstock_held_bytes"); bytes > heldScale*16<<20+256<<10 {
				t.Errorf("held requests take %d bytes, more than half of %d MiB and one request", bytes, heldScale*32)
			}
			n.othersAreHeldAndServed()
			if got := reached.Load(); got != 1+others {
				t.Errorf("%d requests reached the upstream, want %d", got, 1+others)
			}
			n.isWell(heldMiB * heldScale)
		})
	}
}

// Held requests of one rule leave connections for others, however few there are.
func TestHeldRequestsLeaveConnections(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	n := start(t, setup{rules: heldRules, files: openFiles, config: fmt.Sprintf("upstreams: [{url: %q}]\n", upstream)})
	n.status("gateway", "/flooded")
	const sent = 200 // to a node that takes 64 connections
	n.holdLines(heldFloods[0].text, sent)
	eventually(t, "all are held or refused", func() bool { return n.metric("penstock_held_requests")+n.refused("flooded") >= sent })
	if held := n.metric("penstock_held_requests"); held != 32 {
		t.Errorf("%d are held, want 32", held)
	}
	n.othersAreHeldAndServed()
	n.isWell(maxMiB)
}

const (
	others = 12 // requests of the other rule at a time

	// heldMiB is what a node may take at its highest: some 40 MiB by itself, twice what is held, twice
	// what connections take, and garbage. 1500 requests with bodies of 64 KiB took 200 MiB when all of
	// them were held and their bodies were read.
	heldMiB = 160
)

// holdLines sends a request on each of count connections. The rejected ones are answered with 503.
func (n *node) holdLines(text string, count int) {
	n.t.Helper()
	inParallel(make([]struct{}, count), 4, func(struct{}) {
		if l := dial(n.t, n.addresses["gateway"]); l != nil {
			io.WriteString(l, text)
			go func() {
				if r, err := l.read(); err == nil && (r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "") {
					n.t.Errorf("a flooded rule answers with %d, %v", r.status, r.header)
				}
			}()
		}
	})
}

// holdStreams opens count streams, 100 on each HTTP/2 connection. They send as much of a body as they may.
func (n *node) holdStreams(count int) {
	n.t.Helper()
	const each = 100
	header := fields{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/flooded"}}.encode()
	piece := make([]byte, 10<<10) // times 100 is what a connection takes
	for range count / each {
		l := dial(n.t, n.addresses["gateway"])
		if l == nil {
			n.t.Fatal("no connection")
		}
		io.WriteString(l, http2.ClientPreface)
		framer := http2.NewFramer(l, l.from)
		errs := []error{framer.WriteSettings(), awaitWindow(framer)}
		go io.Copy(io.Discard, l.from)
		for i := range uint32(each) {
			errs = append(errs, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: header, EndHeaders: true}), framer.WriteData(2*i+1, false, piece))
		}
		if err := errors.Join(errs...); err != nil {
			n.t.Fatal(err)
		}
	}
}

// awaitWindow returns when the server has said how much it takes on the connection.
func awaitWindow(framer *http2.Framer) error {
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		if _, ok := frame.(*http2.WindowUpdateFrame); ok {
			return nil
		}
	}
}

// othersAreHeldAndServed sends requests of the other rule at the same time: all but the first of them
// have to wait.
func (n *node) othersAreHeldAndServed() {
	n.t.Helper()
	var all sync.WaitGroup
	for range others {
		all.Go(func() {
			if status := n.status("gateway", "/other"); status != http.StatusOK {
				n.t.Errorf("the other rule answers with %d", status)
			}
		})
	}
	all.Wait()
	if refused := n.refused("other"); refused != 0 {
		n.t.Errorf("%d requests of the other rule were refused", refused)
	}
}

func (n *node) refused(rule string) int {
	n.t.Helper()
	return n.metric(fmt.Sprintf("penstock_held_refused_total{rule=%q}", rule))
}

// metric returns the value of a metric, 0 if there is none.
func (n *node) metric(name string) int {
	n.t.Helper()
	for line := range strings.Lines(n.metrics()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				n.t.Fatal(err)
			}
			return int(number)
		}
	}
	return 0
}

// metrics returns all of them, as Prometheus reads them.
func (n *node) metrics() string {
	n.t.Helper()
	req, err := http.NewRequest(http.MethodGet, n.url("admin", "/metrics"), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+viewerToken)
	res, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		n.t.Fatalf("metrics: status %d, %v", res.StatusCode, err)
	}
	return string(text)
}
