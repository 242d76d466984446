package decisionlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/decisionlog"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

const document = `
attributes: {user: {header: X-User}}
rules:
  - {name: per-user, key: [user], limits: [{rate: 3/1m, algorithm: fixed_window}]}
  - {name: odd, match: {path: /odd, when: "int(user) > 0"}, key: [], limits: [1000/1m]}
`

// unavailableStore is a store that is unavailable.
type unavailableStore struct{ err error }

func (d unavailableStore) Take(context.Context, *storage.Ticket, *storage.Outcome) error {
	return d.err
}

// run decides requests and returns the log, one record a line, without times.
func run(t *testing.T, o decisionlog.Options, level slog.Level, store penstock.Store, work func(decide func(attributes ...string))) []map[string]any {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(document)}}, rules.Options{Secret: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o.Log = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))
	l, err := decisionlog.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if store == nil {
		memory, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		store = memory
	}
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot), Observe: l.Observe})
	if err != nil {
		t.Fatal(err)
	}
	work(func(attributes ...string) {
		call := penstock.Call{Cost: 1}
		for i := 0; i+1 < len(attributes); i += 2 {
			call.Attributes = append(call.Attributes, penstock.Attribute{Name: attributes[i], Value: attributes[i+1]})
		}
		var v penstock.Verdict
		_ = e.Decide(t.Context(), &call, &v) // the result is in the log
	})
	l.Close()
	return records(t, out.String())
}

func records(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		delete(record, "time")
		all = append(all, record)
	}
	return all
}

func TestAllowedAndDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at midnight, when a window begins
		got := run(t, decisionlog.Options{Mode: decisionlog.All}, slog.LevelInfo, nil, func(decide func(...string)) {
			for range 4 {
				decide("user", "alice")
			}
		})
		if len(got) != 4 {
			t.Fatalf("%d records, want 4: %v", len(got), got)
		}
		hash, _ := got[0]["key_hash"].(string)
		if len(hash) != 12 {
			t.Errorf("key_hash %q, want the first 12 characters of the key's hash", hash)
		}
		want := []map[string]any{
			{"level": "INFO", "msg": "allowed", "rule": "per-user", "key_hash": hash, "reason": "ok", "used": 1.0, "limit": 3.0, "window_seconds": 60.0},
			{"level": "WARN", "msg": "denied", "rule": "per-user", "key_hash": hash, "reason": "over_limit", "used": 3.0, "limit": 3.0, "window_seconds": 60.0, "retry_after_seconds": 60.0},
		}
		if diff := cmp.Diff(want, []map[string]any{got[0], got[3]}); diff != "" {
			t.Error("(-want +got):\n" + diff)
		}
	})
}

func TestSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := run(t, decisionlog.Options{Mode: decisionlog.Sampled}, slog.LevelInfo, nil, func(decide func(...string)) {
			for range 3 + 250 {
				decide("user", "alice")
			}
			time.Sleep(10*time.Second + time.Millisecond) // the summary
			synctest.Wait()
			decide("user", "alice") // starts again
		})
		var lines []string
		for _, r := range got {
			lines = append(lines, fmt.Sprint(r["msg"], " ", r["nth"], " ", r["count"]))
		}
		want := []string{
			"allowed <nil> <nil>", "denied <nil> <nil>", "denied 10 <nil>", "denied 100 <nil>",
			"allowed, total <nil> 3", "denied, total <nil> 250",
			"denied <nil> <nil>",
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error("(-want +got):\n" + diff)
		}
	})
}

func TestNoneAndLevels(t *testing.T) {
	calls := func(decide func(...string)) {
		for range 5 {
			decide("user", "alice")
		}
	}
	if got := run(t, decisionlog.Options{Mode: decisionlog.None}, slog.LevelInfo, nil, calls); len(got) != 0 {
		t.Errorf("none wrote %v", got)
	}
	for _, r := range run(t, decisionlog.Options{Mode: decisionlog.All}, slog.LevelWarn, nil, calls) {
		if r["level"] == "INFO" {
			t.Errorf("below the level: %v", r)
		}
	}
}

// Failures are logged in every mode, with their place and without the names of clients.
func TestStoreFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no summary comes in between
		broken := unavailableStore{fmt.Errorf("redis: %w: %w", penstock.ErrUnavailable, errors.New("connection refused\nby \x1b[31mpeer"))}
		got := run(t, decisionlog.Options{Mode: decisionlog.None, KeyPrefix: "pen:"}, slog.LevelInfo, broken, func(decide func(...string)) {
			decide("user", "alice@example.com")
			decide("user", "alice@example.com")
		})
		if len(got) != 2 {
			t.Fatalf("%d records, want one and a summary: %v", len(got), got)
		}
		r := got[0]
		hash, _ := r["key_hash"].(string)
		want := map[string]any{
			"level": "ERROR", "msg": "the store failed", "rule": "per-user", "allowed": true, "quality": "open",
			"error": broken.err.Error(), "key_hash": hash, "redis_key": "pen:{" + hash + "…", "limit": 3.0, "window_seconds": 60.0,
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Error("(-want +got):\n" + diff)
		}
		if len(hash) != 12 || strings.Contains(fmt.Sprint(got), "alice") {
			t.Errorf("got %v", got)
		}
	})
}

// In mode all every failure is logged, and there is no summary.
func TestAllStoreFailures(t *testing.T) {
	broken := unavailableStore{fmt.Errorf("redis: %w", penstock.ErrUnavailable)}
	got := run(t, decisionlog.Options{Mode: decisionlog.All}, slog.LevelError, broken, func(decide func(...string)) {
		for range 25 {
			decide("user", "alice")
		}
	})
	if len(got) != 25 {
		t.Fatalf("%d records of 25 failures", len(got))
	}
	for _, r := range got {
		if r["msg"] != "the store failed" || r["nth"] != nil || len(fmt.Sprint(r["key_hash"])) != 12 {
			t.Fatalf("got %v", r)
		}
	}
}

// panics is a store that always panics.
type panics struct{}

func (panics) Take(context.Context, *storage.Ticket, *storage.Outcome) error { panic("for the test") }

func TestStackOfAPanic(t *testing.T) {
	got := run(t, decisionlog.Options{Mode: decisionlog.None}, slog.LevelInfo, panics{}, func(decide func(...string)) {
		decide("user", "alice")
	})
	if stack := fmt.Sprint(got[0]["stack"]); got[0]["level"] != "ERROR" || !strings.Contains(stack, "decisionlog_test.panics.Take") {
		t.Errorf("got %v", got[0])
	}
}

// changing is a store whose errors change.
type changing struct{ errs []error }

func (c *changing) Take(context.Context, *storage.Ticket, *storage.Outcome) error {
	err := c.errs[0]
	c.errs = c.errs[1:]
	return err
}

// The first failure of a kind is logged in full, however many there were of another kind; a long outage takes a few
// lines, whatever rules it affects.
func TestCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no summary comes in between
		timeout := fmt.Errorf("%w: timeout", penstock.ErrUnavailable)
		memory := fmt.Errorf("%w: oom", penstock.ErrUnavailable)
		store := &changing{}
		for range 150 {
			store.errs = append(store.errs, timeout)
		}
		store.errs = append(store.errs, memory, timeout, memory)
		causes := func(err error) string { _, cause, _ := strings.Cut(err.Error(), ": "); return cause }
		got := run(t, decisionlog.Options{Mode: decisionlog.None, Cause: causes}, slog.LevelInfo, store, func(decide func(...string)) {
			for i := range 153 {
				if i%2 == 0 {
					decide("user", "alice")
				} else {
					decide("user", "7", "path", "/odd")
				}
			}
		})
		var lines []string
		for _, r := range got {
			lines = append(lines, fmt.Sprint(r["msg"], " ", r["cause"], " ", r["rule"], " ", r["nth"], " ", r["limit"], " ", r["count"]))
		}
		want := []string{
			"the store failed timeout per-user <nil> 3 <nil>", "the store failed timeout per-user 10 3 <nil>", "the store failed timeout per-user 100 3 <nil>",
			"the store failed oom per-user <nil> 3 <nil>",
			"the store failed, total oom <nil> <nil> <nil> 2", "the store failed, total timeout <nil> <nil> <nil> 151",
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error("(-want +got):\n" + diff)
		}
	})
}

func TestRuleFailureAndInvalidCall(t *testing.T) {
	got := run(t, decisionlog.Options{Mode: decisionlog.None}, slog.LevelInfo, nil, func(decide func(...string)) {
		decide("path", "/odd", "user", "no number")
		decide("", "no name")
	})
	var messages []string
	for _, r := range got {
		messages = append(messages, fmt.Sprint(r["level"], " ", r["msg"], " ", r["rule"]))
	}
	want := []string{"ERROR a rule could not be evaluated odd", "WARN invalid call <nil>"}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Error("(-want +got):\n" + diff)
	}
}

func TestOptions(t *testing.T) {
	_, err := decisionlog.New(decisionlog.Options{Mode: "some", Every: -1})
	if !errors.Is(err, penstock.ErrInvalid) || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v, want three mistakes", err)
	}
}
