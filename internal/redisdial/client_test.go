package redisdial

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// pieces are what a server may send, well-formed but not always in its place.
var pieces = []string{
	"+OK\r\n", "+PONG\r\n", "-NOPERM the 'ping' command\r\n", "-NOPERM the 'unsubscribe' command\r\n", "-LOADING\r\n", "+QUEUED\r\n", "-QUEUED\r\n", "*0\r\n", "_\r\n",
	">3\r\n+subscribe\r\n+a\r\n:1\r\n", ">3\r\n+subscribe\r\n+b\r\n:2\r\n", ">3\r\n+unsubscribe\r\n+a\r\n:0\r\n", ">3\r\n+unsubscribe\r\n+b\r\n:0\r\n",
	">3\r\n+message\r\n+a\r\n+hello\r\n", ">2\r\n+invalidate\r\n_\r\n", ">1\r\n+subscribe\r\n", "*3\r\n+subscribe\r\n+a\r\n:1\r\n", "-MOVED 1 a:1\r\n", "*1\r\n+pong\r\n",
}

// FuzzClient plays pieces to a client with subscriptions in one pipelined connection. The client library panics, in a
// goroutine of its own, if it cannot tell which command a reply belongs to.
func FuzzClient(f *testing.F) {
	f.Add([]byte{2, 9, 10, 2, 11, 1, 1, 1, 1, 1})
	f.Add([]byte{1, 1, 2, 1, 1})
	for i := range pieces {
		f.Add([]byte{1, byte(i), 1, byte(i), 1, byte(i), 2, byte(i), 1})
		f.Add([]byte{2, 9, 10, 1, byte(i), 1, byte(i), 2, 1, byte(i)})
		f.Add([]byte{2, 9, byte(i), 2, byte(i), 10, 2, byte(i), 1})
	}
	f.Fuzz(func(_ *testing.T, script []byte) {
		if len(script) > 64 {
			return
		}
		var servers sync.WaitGroup
		defer servers.Wait()
		option := rueidis.ClientOption{
			InitAddress: []string{"server:1"}, ForceSingleClient: true, DisableCache: true, DisableRetry: true, ClientSetInfo: rueidis.DisableClientSetInfo,
			PipelineMultiplex: -1, AlwaysPipelining: true, ReadBufferEachConn: 4096, WriteBufferEachConn: 4096, RingScaleEachConn: 4,
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
				client, server := net.Pipe()
				servers.Go(func() { playScript(server, script) })
				return client, nil
			},
		}
		c, err := NewClient(option, testLimits)
		if err != nil {
			return
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			c.Receive(ctx, c.B().Subscribe().Channel("a", "b").Build(), func(rueidis.PubSubMessage) {})
		})
		all.Go(func() { c.Do(ctx, c.B().Ping().Build()) })
		all.Go(func() { c.Do(ctx, c.B().Unsubscribe().Channel("a", "b").Build()) })
		all.Go(func() { c.Do(ctx, c.B().Ping().Build()) })
		all.Wait()
	})
}

// playScript answers the handshake, and every other command with pieces: their number, and which. It ends with the
// script.
func playScript(c net.Conn, script []byte) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		var head, name string
		for i := 0; ; i++ { // the words of a command
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if i == 0 {
				head = line
			}
			if i == 2 {
				name = strings.TrimSpace(line)
			}
			if n := int(head[1] - '0'); i == 2*n {
				break
			}
		}
		reply := "%1\r\n+proto\r\n:3\r\n"
		if name != "HELLO" {
			if len(script) == 0 {
				return
			}
			n := int(script[0]) % 4
			script, reply = script[1:], ""
			for range min(n, len(script)) {
				reply += pieces[int(script[0])%len(pieces)]
				script = script[1:]
			}
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// Only this package makes clients, because others would have no guard.
func TestOnlyGuardedClients(t *testing.T) {
	root, makers := "../..", 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if d.IsDir() && (d.Name() == "bench" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("rueidis.NewClient(")) {
			makers++
			if filepath.Base(filepath.Dir(path)) != "redisdial" {
				t.Errorf("%s makes a client of Redis without a guard: use redisdial.NewClient", path)
			}
		}
		return err
	})
	if err != nil || makers == 0 {
		t.Errorf("%d makers found: %v", makers, err)
	}
}
