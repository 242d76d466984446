package replaylog

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
)

func observation(cost int64) *engine.Observation {
	return &engine.Observation{
		Call:    &penstock.Call{Cost: cost, Attributes: []penstock.Attribute{{Name: "ip", Value: "198.51.100.7"}}},
		Verdict: &penstock.Verdict{Allowed: true, Rule: "a", Now: 1_794_820_321_000_001},
	}
}

const want = `{"time":1794820321000001,"cost":2,"attributes":{"ip":"198.51.100.7"},"allowed":true,"rule":"a","reason":"ok","quality":"exact"}` + "\n"

// The log is appended to, is readable only by its owner, and stops when it is full, which is logged once.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "replay.jsonl")
	var told bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&told, nil))
	for range 2 {
		l, err := Open(path, int64(2*len(want)), logger)
		if err != nil {
			t.Fatal(err)
		}
		l.Observe(observation(2))
		l.Observe(observation(0)) // a peek
		l.Close()
	}
	l, err := Open(path, int64(2*len(want)), logger)
	if err != nil {
		t.Fatal(err)
	}
	l.Observe(observation(2))
	l.Observe(observation(2))
	l.Close()
	text, err := os.ReadFile(path)
	if err != nil || string(text) != want+want {
		t.Errorf("%v\n%s", err, text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if strings.Count(told.String(), "the replay log is full") != 1 {
		t.Errorf("%s", &told)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, 1<<20, logger); err == nil || !strings.Contains(err.Error(), "can be read by others (mode -rw-r--r--), and it names clients; chmod 600 "+path) {
		t.Error(err)
	}
	if _, err := Open(t.TempDir(), 1<<20, logger); err == nil {
		t.Error("a directory was opened")
	}
}
