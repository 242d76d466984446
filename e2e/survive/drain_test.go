//go:build linux

package survive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// errNoMore is the error of a client that needs a second connection.
var errNoMore = errors.New("the connection has ended")

// newClient has one connection, so that it never mistakes a closed listener for a failed request.
func newClient(t *testing.T, h2 bool) *http.Client {
	var dialed atomic.Bool
	transport := &http.Transport{
		MaxConnsPerHost: 1, DisableCompression: true, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if dialed.Swap(true) {
				return nil, errNoMore
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	transport.Protocols.SetHTTP1(!h2)
	transport.Protocols.SetUnencryptedHTTP2(h2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 4 * patience}
}

// A heldUpstream begins to answer, and continues when the test says so.
type heldUpstream struct {
	begun   atomic.Int32
	release chan struct{}
}

const firstHalf, secondHalf = "first half, ", "second half"

func (u *heldUpstream) serve(w http.ResponseWriter, req *http.Request) {
	switch req.URL.Path {
	case "/held":
		u.begun.Add(1)
		<-u.release
		io.WriteString(w, firstHalf)
	case "/stream":
		io.WriteString(w, firstHalf)
		w.(http.Flusher).Flush()
		u.begun.Add(1)
		<-u.release
	case "/upload":
		u.begun.Add(1)
		io.Copy(w, req.Body)
		return
	default:
		io.WriteString(w, firstHalf)
	}
	io.WriteString(w, secondHalf)
}

// Requests in flight when SIGTERM arrives, waiting for a header, streaming or uploading, over HTTP/1.1
// and HTTP/2, all succeed; so do those that clients still send on open connections. No new connection
// is accepted, and the process exits with status 0.
func TestTerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	const clients = 8 // of each kind
	kinds := []string{"/held", "/stream", "/upload"}
	upstream := &heldUpstream{release: make(chan struct{})}
	n := start(t, setup{config: fmt.Sprintf("gateway: {h2c: true, timeouts: {drain: 60s, body: 60s}}\nupstreams: [{url: %q}]\n", newUpstream(t, upstream.serve))})

	var all sync.WaitGroup
	for _, h2 := range []bool{false, true} {
		for _, kind := range kinds {
			for range clients {
				client := newClient(t, h2)
				all.Go(func() { endsWell(t, n, client, kind, upstream.release) })
			}
		}
		for range clients {
			client := newClient(t, h2)
			all.Go(func() { asksToTheEnd(t, n, client) })
		}
	}
	underWay := int32(2 * clients * len(kinds))
	eventually(t, "all requests are under way", func() bool { return upstream.begun.Load() == underWay })
	n.terminate()
	eventually(t, "nobody else gets in", func() bool {
		conn, err := net.Dial("tcp", n.addresses["gateway"])
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	close(upstream.release)
	all.Wait()
	if status := n.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// endsWell sends a request that lasts until it is released.
func endsWell(t *testing.T, n *node, client *http.Client, path string, release <-chan struct{}) {
	method, body := http.MethodGet, io.Reader(nil)
	if path == "/upload" {
		from, to := io.Pipe()
		method, body = http.MethodPost, from
		go func() {
			io.WriteString(to, firstHalf)
			<-release
			io.WriteString(to, secondHalf)
			to.Close()
		}()
	}
	req, err := http.NewRequest(method, n.url("gateway", path), body)
	if err != nil {
		t.Error(err)
		return
	}
	if got, err := textOf(client.Do(req)); err != nil || got != firstHalf+secondHalf {
		t.Errorf("%s: %q, %v", path, got, err)
	}
}

// asksToTheEnd sends short requests for as long as its connection lasts.
func asksToTheEnd(t *testing.T, n *node, client *http.Client) {
	for {
		got, err := textOf(client.Get(n.url("gateway", "/short")))
		if errors.Is(err, errNoMore) {
			return
		}
		if err != nil || got != firstHalf+secondHalf {
			t.Errorf("a short request: %q, %v", got, err)
			return
		}
	}
}

func textOf(res *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", res.StatusCode)
	}
	text, err := io.ReadAll(res.Body)
	return string(text), err
}
