package storestack

import (
	"encoding/binary"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

// A node whose memory is full says so once.
func TestFullMemoryIsTold(t *testing.T) {
	var log lockedBuffer
	s, err := Open(Options{Memory: memstore.Options{MaxBytes: memstore.MinBytes}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.Close() // so that only this test looks
	s.checkMemory()
	if log.String() != "" {
		t.Fatalf("an empty store: %s", log.String())
	}
	one := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Hour}
	m, err := one.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); s.Memory.Stats().Shared == 0 && n < 1_000_000; n++ {
		var subject storage.Subject
		binary.LittleEndian.PutUint64(subject[4:], n*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint64(subject[8:], n*0xc2b2ae3d27d4eb4f)
		ticket := &storage.Ticket{Groups: []storage.Group{{Subject: subject, Charges: []algorithm.Charge{{Meter: m, Cost: 1}}}}}
		if err := s.Memory.Take(t.Context(), ticket, new(storage.Outcome)); err != nil {
			t.Fatal(err)
		}
	}
	s.checkMemory()
	s.checkMemory()
	if text := log.String(); strings.Count(text, "memory is full") != 1 || !strings.Contains(text, "shared_counters=") {
		t.Errorf("a full store: %s", text)
	}
}
