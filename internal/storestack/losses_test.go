package storestack

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// A lockedBuffer is written by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A Redis that loses its data is logged and counted, once.
func TestLossesAreTold(t *testing.T) {
	server := redistest.Start(t)
	var log lockedBuffer
	s, err := Open(Options{Redis: &redisstore.Options{Addresses: []string{server.Addr}, Timeout: 10 * time.Second}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	members, err := s.Join(membership.Options{Self: func() membership.Node { return membership.Node{Name: "here"} }, Interval: 10 * time.Millisecond, Timeout: 10 * time.Second},
		func(storage.Subject, bool, penstock.Instant) {})
	if err != nil {
		t.Fatal(err)
	}
	defer members.Close()
	await := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	ask := func(args ...string) string {
		t.Helper()
		reply, err := redistest.Command(server.Addr, args...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	marked := func() bool { return ask("ZCARD", "pen:{marks0}") == "1" }
	for range 2 {
		await("a mark", marked)
		before := ask("ZRANGE", "pen:{marks0}", "0", "-1", "WITHSCORES")
		await("the next mark", func() bool { return ask("ZRANGE", "pen:{marks0}", "0", "-1", "WITHSCORES") != before })
	}
	if lost := s.Losses(); lost.Times != 0 {
		t.Fatalf("%+v although nothing is lost", lost)
	}
	ask("FLUSHALL")
	await("the loss is counted", func() bool { return s.Losses().Times > 0 })
	await("a mark", marked)
	before := ask("ZRANGE", "pen:{marks0}", "0", "-1", "WITHSCORES")
	await("the next mark", func() bool { return ask("ZRANGE", "pen:{marks0}", "0", "-1", "WITHSCORES") != before })
	if lost, text := s.Losses(), log.String(); lost.Times != 1 || lost.Last.IsZero() || strings.Count(text, "Redis has lost data") != 1 || !strings.Contains(text, "lost=everything") {
		t.Errorf("%+v, log %s", lost, text)
	}
}
