//go:build linux

package survive

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// An http2Flood writes frames until it has had enough or the gateway has.
type http2Flood func(*http2.Framer, uint32) error

var http2Floods = map[string]http2Flood{
	// Each request is begun and taken back at once.
	"reset": func(f *http2.Framer, i uint32) error {
		stream := 2*i + 1
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: floodHeader, EndHeaders: true, EndStream: true}); err != nil {
			return err
		}
		return f.WriteRSTStream(stream, http2.ErrCodeCancel)
	},
	// One header that never ends.
	"continuation": func(f *http2.Framer, i uint32) error {
		if i == 0 {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: floodHeader})
		}
		return f.WriteContinuation(1, false, fields{{fmt.Sprint("x-", i), "some value to keep"}}.encode())
	},
	// Requests that are begun and never ended.
	"open": func(f *http2.Framer, i uint32) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: floodHeader, EndHeaders: true})
	},
	"settings": func(f *http2.Framer, i uint32) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: i % 65536})
	},
	"ping":     func(f *http2.Framer, i uint32) error { return f.WritePing(false, [8]byte{byte(i)}) },
	"priority": func(f *http2.Framer, i uint32) error { return f.WritePriority(2*i+1, http2.PriorityParam{}) },
	"window":   func(f *http2.Framer, _ uint32) error { return f.WriteWindowUpdate(0, 1) },
}

var floodHeader = fields{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/p/1/"}}.encode()

// Floods of HTTP/2 frames bring nobody past the limiter, hold nobody else up, and fill no memory.
// What they begin and take back may be counted without getting anywhere, never the reverse.
func TestFloodsOfHTTP2(t *testing.T) {
	w := newGoWitness(t)
	n := start(t, setup{rules: smuggleRules, config: fmt.Sprintf("gateway: {h2c: true}\nupstreams: [{url: %q}]\n", w.url)})
	stop := n.keepsServing("/others")
	var all sync.WaitGroup
	for name, flood := range http2Floods {
		for range 2 * longer {
			conn := dial(t, n.addresses["gateway"])
			if conn == nil {
				t.Fatal(name)
			}
			all.Go(func() {
				defer conn.Close()
				conn.flood(3000, flood)
			})
		}
	}
	all.Wait()
	stop()
	seen := perPayload(w.seen())["1"]
	if counted := n.used("each", map[string]string{"path": "/p/1/"}); seen > counted {
		t.Errorf("counted %d, the upstream has seen %d", counted, seen)
	}
	n.isWell(maxMiB)
}

// flood writes frames, and takes what is answered.
func (l *line) flood(frames int, write http2Flood) {
	l.SetDeadline(time.Now().Add(2 * patience))
	go io.Copy(io.Discard, l.from)
	io.WriteString(l, http2.ClientPreface)
	framer := http2.NewFramer(l, nil)
	framer.AllowIllegalWrites = true
	framer.WriteSettings()
	for i := range frames {
		if write(framer, uint32(i)) != nil {
			return // it was cut off
		}
	}
}
