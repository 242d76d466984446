//go:build linux

package survive

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// An http2Flood writes frames until it is done or the server stops it. The header is that of a
// request; the number counts from 0.
type http2Flood func(f *http2.Framer, header []byte, i uint32) error

var http2Floods = map[string]http2Flood{
	// Each request is begun and taken back at once.
	"reset": func(f *http2.Framer, header []byte, i uint32) error {
		stream := 2*i + 1
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: header, EndHeaders: true, EndStream: true}); err != nil {
			return err
		}
		return f.WriteRSTStream(stream, http2.ErrCodeCancel)
	},
	// One header that never ends.
	"continuation": func(f *http2.Framer, header []byte, i uint32) error {
		if i == 0 {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header})
		}
		return f.WriteContinuation(1, false, fields{{fmt.Sprint("x-", i), "some value to keep"}}.encode())
	},
	// Requests that are begun and never ended.
	"open": func(f *http2.Framer, header []byte, i uint32) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: header, EndHeaders: true})
	},
	"settings": func(f *http2.Framer, _ []byte, i uint32) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: i % 65536})
	},
	"ping":     func(f *http2.Framer, _ []byte, i uint32) error { return f.WritePing(false, [8]byte{byte(i)}) },
	"priority": func(f *http2.Framer, _ []byte, i uint32) error { return f.WritePriority(2*i+1, http2.PriorityParam{}) },
	"window":   func(f *http2.Framer, _ []byte, _ uint32) error { return f.WriteWindowUpdate(0, 1) },
	"ack":      func(f *http2.Framer, _ []byte, _ uint32) error { return f.WriteSettingsAck() },
	"unknown":  func(f *http2.Framer, _ []byte, i uint32) error { return f.WriteRawFrame(0xbe, 0, i, make([]byte, 100)) },
	"overflow": func(f *http2.Framer, _ []byte, _ uint32) error { return f.WriteWindowUpdate(0, 1<<31-1) },
	// Pieces of a body in which there is nothing.
	"empty": func(f *http2.Framer, header []byte, i uint32) error {
		if i == 0 {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header, EndHeaders: true})
		}
		return f.WriteDataPadded(1, false, nil, make([]byte, i%200))
	},
	// Requests whose responses the client does not take.
	"untaken": func(f *http2.Framer, header []byte, i uint32) error {
		if i == 0 {
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		}
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: header, EndHeaders: true, EndStream: true})
	},
	// A header of 4 KiB that is sent once, and named with one byte ever after.
	"hpack": func(f *http2.Framer, header []byte, i uint32) error {
		if i == 0 {
			header = slices.Concat(header, fields{{"x", strings.Repeat("y", 4000)}}.encode())
		}
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: slices.Concat(header, bytes.Repeat([]byte{0x80 | 62}, 1000)), EndHeaders: true, EndStream: true})
	},
	// Streams from the wrong side, numbers that go back, and promises.
	"numbers": func(f *http2.Framer, header []byte, i uint32) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2 * (3000 - i), BlockFragment: header, EndHeaders: true, EndStream: true})
	},
	"promise": func(f *http2.Framer, header []byte, i uint32) error {
		return f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2*i + 2, BlockFragment: header, EndHeaders: true})
	},
	"goaway": func(f *http2.Framer, _ []byte, i uint32) error {
		return f.WriteGoAway(i, http2.ErrCodeNo, make([]byte, 1000))
	},
}

var floodHeader = fields{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/p/1/"}}.encode()

// Floods of HTTP/2 frames do not bypass the limiter, delay other clients or fill memory. A request that
// is begun and cancelled may be counted without being forwarded, but never forwarded uncounted.
func TestFloodsOfHTTP2(t *testing.T) {
	t.Parallel()
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
				conn.flood(3000, floodHeader, flood)
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

// The same floods at the gRPC listener: requests of others are decided meanwhile, and counted exactly.
func TestFloodsOfGRPC(t *testing.T) {
	t.Parallel()
	n := start(t, setup{rules: "rules: [{name: each, key: [user], " + counted + "}]", config: "upstreams: [{url: \"http://127.0.0.1:1\"}]\n"})
	header := fields{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", penstockv1.Decisions_Check_FullMethodName}, {"content-type", "application/grpc"}, {"te", "trailers"}}.encode()
	var all sync.WaitGroup
	for name, flood := range http2Floods {
		for range longer {
			conn := dial(t, n.addresses["grpc"])
			if conn == nil {
				t.Fatal(name)
			}
			all.Go(func() {
				defer conn.Close()
				conn.flood(3000, header, flood)
			})
		}
	}
	conn, err := grpc.NewClient(n.addresses["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	flooded := make(chan struct{})
	go func() { defer close(flooded); all.Wait() }()
	const least = 200
	sent := 0
	for isFlooding := true; isFlooding || sent < least; sent++ {
		v, err := penstockv1.NewDecisionsClient(conn).Check(t.Context(), &penstockv1.CheckRequest{Attributes: map[string]string{"user": "innocent"}})
		if err != nil || !v.Allowed {
			t.Errorf("request %d: %v, %v", sent, v, err)
		}
		select {
		case <-flooded:
			isFlooding = false
		default:
		}
	}
	if used := n.used("each", map[string]string{"user": "innocent"}); used != sent {
		t.Errorf("counted %d of %d requests", used, sent)
	}
	n.isWell(maxMiB)
}

// flood writes frames, and takes what is answered.
func (l *line) flood(frames int, header []byte, write http2Flood) {
	l.SetDeadline(time.Now().Add(2 * patience))
	go io.Copy(io.Discard, l.from)
	io.WriteString(l, http2.ClientPreface)
	framer := http2.NewFramer(l, nil)
	framer.AllowIllegalWrites = true
	framer.WriteSettings()
	for i := range frames {
		if write(framer, header, uint32(i)) != nil {
			return // it was cut off
		}
	}
}
