package admin_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/plan"
	"github.com/penstock-io/penstock/memstore"
)

// A shownPage is a report of a tool as clients read it.
type shownPage struct {
	Page struct {
		Title string
		Parts []struct {
			Text, Code string
			Table      *struct {
				Caption string
				Columns []string
				Rows    [][]string
			}
			Chart *struct {
				Caption string
				Marks   []string
				Lines   []struct {
					Name   string
					Values []float64
				}
			}
		}
	}
	HTML string
}

// A toolStore is a small memory store.
type toolStore struct{ *memstore.Store }

func (s toolStore) Bytes() int64 { return s.Stats().Bytes }

func (s toolStore) Full() bool {
	stats := s.Stats()
	return stats.Shared+stats.Refused > 0
}

// row returns the cells of the first row, of any table, that begins with the given cells.
func (p *shownPage) row(cells ...string) []string {
	for _, part := range p.Page.Parts {
		if part.Table == nil {
			continue
		}
		for _, row := range part.Table.Rows {
			if slices.Equal(row[:min(len(cells), len(row))], cells) {
				return row
			}
		}
	}
	return nil
}

func (p *shownPage) text() string {
	var b strings.Builder
	for _, part := range p.Page.Parts {
		fmt.Fprintln(&b, part.Text)
	}
	return b.String()
}

// form returns the body of a request with a log, and its content type.
func form(t *testing.T, options, name string, log []byte) (string, string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.WriteField("options", options); err != nil {
		t.Fatal(err)
	}
	file, err := w.CreateFormFile("log", name)
	if err == nil {
		_, err = file.Write(log)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// send sends a log to a tool, as an operator.
func (s *testAdmin) send(t *testing.T, path, options, name string, log []byte) *httptest.ResponseRecorder {
	t.Helper()
	body, media := form(t, options, name, log)
	r := s.request("POST", path, body)
	r.Header.Set("Content-Type", media)
	bearer(operatorToken)(r)
	w := s.serve(r)
	conforms(t, r, w)
	return w
}

func readPage(t *testing.T, w *httptest.ResponseRecorder) (p shownPage) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return p
}

// combined returns an access log: requests of clients to /search, a second apart, and a line that is none.
func combined(clients ...string) []byte {
	var b strings.Builder
	at := time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)
	for i, ip := range clients {
		fmt.Fprintf(&b, "%s - - [%s] \"GET /search HTTP/1.1\" 200 12 \"-\" \"-\"\n", ip, at.Add(time.Duration(i)*time.Second).Format("02/Jan/2006:15:04:05 -0700"))
	}
	b.WriteString("not a request\n")
	return []byte(b.String())
}

// Recent requests are replayed by the current rules, or by both these and an edited document.
func TestBacktestOfRecentRequests(t *testing.T) {
	t.Parallel()
	at := penstock.InstantOf(time.Now().Add(-time.Minute))
	s := newTestAdmin(t, setup{now: func() penstock.Instant {
		at = at.Add(time.Second)
		return at
	}})
	if p := get[shownPage](s, "POST", "/v1/tools/backtest", "{}"); !strings.Contains(p.text(), "the last 0 requests") || !strings.Contains(p.text(), "No requests") {
		t.Errorf("without requests: %q", p.text())
	}
	for range 6 {
		search(s, "u1")
	}
	for i := range 4 {
		search(s, fmt.Sprint("other-", i))
	}
	p := get[shownPage](s, "POST", "/v1/tools/backtest", "{}")
	if row := p.row("per-user"); len(row) < 8 || row[3] != "10" || row[4] != "3" || row[6] != "5" || row[7] != "1" {
		t.Errorf("%q", row)
	}
	if row := p.row("per-user", "user=u1"); len(row) != 3 || row[2] != "3" {
		t.Errorf("%q", row)
	}
	if !strings.Contains(p.text(), "the last 10 requests") || strings.Contains(p.text(), "Compared with the decisions") || !strings.Contains(p.HTML, "user=u1") {
		t.Errorf("%q", p.text())
	}
	edited := strings.Replace(someRules, "3/1h", "5/1h", 1)
	p = get[shownPage](s, "POST", "/v1/tools/backtest", object("document", edited))
	if !strings.Contains(p.text(), "Denied by both: 1. Only by current rules: 2. Only by edited rules: 0.") {
		t.Errorf("%q", p.text())
	}
	eventually(t, "the audit log says that names were shown", func() bool {
		return strings.Contains(s.ask("GET", "/v1/audit", "").Body.String(), `"reveal"`)
	})
	s.refused("POST", "/v1/tools/backtest", object("document", "rules: [{name: a}]"), 400, "invalid", `"line"`)
	s.refused("POST", "/v1/tools/backtest", object("documents", "x"), 400, "invalid", "documents: unknown field")
	s.refused("POST", "/v1/tools/backtest", object("timezone", "Nowhere/Else"), 400, "invalid", "Europe/Berlin")
}

// A log that is sent is replayed, plain or compressed. What cannot be read is named with its position.
func TestBacktestOfALog(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: "rules: [{name: per-ip, key: [ip], limits: [{rate: 2/1m, algorithm: sliding_window_log}]}]"})
	log := combined("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.1")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(log); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for name, text := range map[string][]byte{"access.log": log, "access.log.gz": packed.Bytes()} {
		p := readPage(t, s.send(t, "/v1/tools/backtest", "{}", name, text))
		if row := p.row("per-ip"); len(row) < 8 || row[3] != "5" || row[4] != "2" || row[7] != "1" {
			t.Errorf("%s: %q", name, row)
		}
		if !strings.Contains(p.text(), name+":6: ") || !strings.Contains(p.text(), `"not a request"`) {
			t.Errorf("%s: %q", name, p.text())
		}
	}
	user := object("document", "attributes: {user: {header: X-User}}\nrules: [{name: a, key: [user], limits: [1/1m]}]")
	for _, test := range []struct {
		options string
		log     []byte
		status  int
		want    string
	}{
		{"{}", []byte("\x00\x01binary"), 400, "a binary file, not a log"},
		{"{}", []byte("nothing like a log\n"), 400, "unknown log format"},
		{`{"format": "apache3"}`, log, 400, "unknown log format"},
		{user, log, 400, "fields user=extra1"},
		{"{", log, 400, "must be a JSON object"},
		{"{}", bytes.Repeat([]byte("x"), 32<<20+1), 413, "more than 32 MiB"},
	} {
		if w := s.send(t, "/v1/tools/backtest", test.options, "a.log", test.log); w.Code != test.status || !strings.Contains(w.Body.String(), test.want) || strings.Contains(w.Body.String(), "--field") {
			t.Errorf("%s %.20q: %d %s, want %q", test.options, test.log, w.Code, w.Body, test.want)
		}
	}
	readPage(t, s.send(t, "/v1/tools/backtest", strings.Replace(user, "{", `{"without": ["user"], `, 1), "a.log", log))
}

// A limit found on a log meets its target, and comes with its curve.
func TestSuggestFromALog(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	var clients []string
	for i := range 300 {
		clients = append(clients, fmt.Sprint("192.0.2.", i%7), "198.51.100.1")
	}
	options := object("key", []string{"ip"}, "algorithm", "sliding_window_log", "max_keys", 0.2, "hold_out", 0)
	p := readPage(t, s.send(t, "/v1/tools/suggest", options, "access.log", combined(clients...)))
	// In a minute each of seven clients sends at most 5 requests, and one sends 30: of 8 keys, one may be denied.
	if !strings.Contains(p.text(), "5/1m is the smallest sliding_window_log") {
		t.Errorf("%q", p.text())
	}
	for _, part := range p.Page.Parts {
		if c := part.Chart; c != nil {
			if len(c.Marks) < 3 || len(c.Lines) != 2 || len(c.Lines[0].Values) != len(c.Marks) {
				t.Errorf("%+v", c)
			}
		}
	}
	if !strings.Contains(p.HTML, "mode: shadow") {
		t.Error("there is no rule to apply")
	}
	s.refused("POST", "/v1/tools/suggest", object("key", []string{"ip"}, "max_keys", 0.1), 400, "invalid", "have not kept any requests")
	s.refused("POST", "/v1/tools/suggest", object("key", []string{"ip"}), 400, "invalid", "no target")
	s.refused("POST", "/v1/tools/suggest", object("key", []string{"ip"}, "max_denied", 0.1, "algorithm", "leaky_bucket"), 400, "invalid", "can be suggested for")
}

// The exact algorithm is never wrong, and the same seed gives the same page. A node refuses what takes too long.
func TestSimulateOnANode(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	body := object("requests", 5000, "limit", 30, "model", "bursty", "algorithms", []string{"sliding_window_log", "fixed_window"})
	p := get[shownPage](s, "POST", "/v1/tools/simulate", body)
	if row := p.row("sliding_window_log 30/1m"); len(row) < 7 || row[4] != "0" || row[5] != "0" || row[6] != "0.0000 %" {
		t.Errorf("%q", row)
	}
	if row := p.row("fixed_window 30/1m"); len(row) < 7 || row[4] == "0" {
		t.Errorf("%q", row)
	}
	if again := get[shownPage](s, "POST", "/v1/tools/simulate", body); again.HTML != p.HTML || !strings.HasPrefix(p.HTML, "<!doctype html>") {
		t.Error("the same seed gives another page")
	}
	// Counters that do not fit would be shared, and decisions wrong.
	s.refused("POST", "/v1/tools/simulate", object("requests", 100_000, "keys", 100_000, "zipf", 0, "requests_per_second", 10_000, "algorithms", []string{"fixed_window"}), 400, "invalid", "more live counters than fit", "penstock simulate")
	for body, want := range map[string]string{
		object("requests", 2_000_000):                       "at most 1000000",
		object("keys", 200_000, "nodes", 17):                "nodes 17",
		object("sharing", "some"):                           "shared, leased or apart",
		object("model", "flood"):                            "known are [poisson",
		object("algorithms", []string{"concurrency"}):       "only limits over a window",
		object("algorithms", []string{"none"}):              "algorithms",
		object("window_ms", -1):                             "window",
		object("requests_per_second", "many"):               "must be a number",
		object("outage_ms", 1e12):                           "not from 0 to a day",
		object("outage_ms", 1000, "on_store_error", "pray"): "pray",
	} {
		s.refused("POST", "/v1/tools/simulate", body, 400, "invalid", want)
	}
}

// A plan of the API is the plan of the command.
func TestPlanOnANode(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	made, err := plan.Make(plan.Default(), plan.DefaultCosts())
	if err != nil {
		t.Fatal(err)
	}
	p := get[shownPage](s, "POST", "/v1/tools/plan", "{}")
	if p.HTML != string(made.Page().HTML()) {
		t.Error("the defaults give another plan")
	}
	small := get[shownPage](s, "POST", "/v1/tools/plan", object("daily_users", 20_000, "monthly_users", 0, "requests_per_user", 200, "request_types", 5))
	if row := small.row("requests"); len(row) < 2 || row[1] != "4 M" {
		t.Errorf("%q", row)
	}
	s.refused("POST", "/v1/tools/plan", object("peak", 0.5), 400, "invalid", "it is at least 1")
	s.refused("POST", "/v1/tools/plan", object("rules", []any{}), 400, "invalid", "request_types")
	s.refused("POST", "/v1/tools/plan", object("algorithm", "concurrency"), 400, "invalid", "counts over time")
}

// A tool ends when its client leaves, and the next one gets its turn.
func TestToolsEndWithTheirClient(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	for range 5 {
		gone, leave := context.WithCancel(t.Context())
		r := s.request("POST", "/v1/tools/simulate", object("requests", 1_000_000))
		bearer(operatorToken)(r)
		leave()
		if w := s.serve(r.WithContext(gone)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d %.200s", w.Code, w.Body)
		}
	}
	get[shownPage](s, "POST", "/v1/tools/simulate", object("requests", 100))
}

// A tool that takes too long, or finds no turn, does not take the node's time from decisions.
func TestToolsAreBounded(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.door.SetToolTime(time.Nanosecond)
	s.refused("POST", "/v1/tools/simulate", object("requests", 1_000_000), 503, "unavailable", "takes longer than 1ns", "penstock simulate")
	s.door.SetToolTime(time.Hour)
	s.door.OccupyTools()
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := s.request("POST", "/v1/tools/simulate", object("requests", 100))
	bearer(operatorToken)(r)
	if w := s.serve(r.WithContext(gone)); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the server is busy") {
		t.Errorf("while another one runs: %d %.200s", w.Code, w.Body)
	}
	r = s.request("POST", "/v1/tools/plan", "{}") // which needs no memory
	bearer(viewerToken)(r)
	if w := s.serve(r); w.Code != http.StatusOK {
		t.Errorf("a plan while a tool runs: %d %.200s", w.Code, w.Body)
	}
}

// A meteredStore reports to a meter when its run holds the most: before counters expire, and when the run is over but
// still holds everything.
type meteredStore struct {
	toolStore
	meter *toolMeter
	room  int64
}

func (s meteredStore) Expire(now penstock.Instant) {
	s.meter.read()
	s.toolStore.Expire(now)
}

func (s meteredStore) Bytes() int64 {
	if s.meter.open > s.meter.room {
		s.meter.room, s.meter.heap = s.meter.open, liveHeap()
	}
	return s.toolStore.Bytes()
}

func (s meteredStore) Close() error {
	s.meter.read()
	s.meter.open -= s.room
	if n, err := s.Size(context.Background()); n > 0 || err != nil {
		s.meter.kept += n
	}
	return s.toolStore.Close()
}

// A toolMeter measures a run of a tool.
type toolMeter struct {
	stores []meteredStore
	open   int64 // bytes that the stores that are open may take
	room   int64 // the most of these
	bytes  int64 // the most that counters took, those of closed stores included
	kept   int64 // counters in stores that were closed
	heap   int64 // alive at the end of the first limit
}

func (m *toolMeter) newStore(maxBytes int64) (admin.ToolStore, error) {
	store, err := memstore.New(memstore.Options{MaxBytes: maxBytes})
	s := meteredStore{toolStore{store}, m, maxBytes}
	m.stores, m.open = append(m.stores, s), m.open+maxBytes
	return s, err
}

func (m *toolMeter) read() {
	var bytes int64
	for _, s := range m.stores {
		bytes += s.toolStore.Bytes()
	}
	m.bytes = max(m.bytes, bytes)
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // for what the first one only made unreachable
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Whatever a simulation is asked to do, its counters stay within the memory for tools, and what else it holds within as
// much again. The short form sends fewer requests through as many stores.
func TestToolsStayWithinTheirMemory(t *testing.T) { // not parallel: it reads the heap of the process
	two := []string{"sliding_window_log", "leaky_bucket"}
	for _, test := range []struct {
		sharing    string
		algorithms []string
		stores     int
		requests   int
	}{
		{"apart", two, 2 * 2 * admin.SimulatedNodes, 10_000},
		{"leased", two, 2 * (1 + admin.SimulatedNodes), 10_000},
		{"apart", two[:1], 2 * admin.SimulatedNodes, admin.SimulatedRequests},
	} {
		largest := test.requests == admin.SimulatedRequests
		if largest && testing.Short() {
			continue
		}
		meter := &toolMeter{}
		s := newTestAdmin(t, setup{toolStore: meter.newStore})
		before := liveHeap()
		r := s.request("POST", "/v1/tools/simulate", object("requests", test.requests, "keys", admin.SimulatedKeys, "model", "retries",
			"nodes", admin.SimulatedNodes, "sharing", test.sharing, "outage_ms", 10_000, "outage_from_ms", 0, "algorithms", test.algorithms,
			"limit", 1_000, "window_ms", 86_400_000, "requests_per_second", 10_000, "count_denied", true))
		bearer(operatorToken)(r)
		w := s.serve(r)
		if w.Code != http.StatusOK && !(largest && strings.Contains(w.Body.String(), "more live counters than fit")) {
			t.Errorf("%s: %d %.300s", test.sharing, w.Code, w.Body)
		}
		if len(meter.stores) != test.stores {
			t.Errorf("%s: %d stores, want %d", test.sharing, len(meter.stores), test.stores)
		}
		if meter.bytes == 0 || max(meter.bytes, meter.room) > admin.ToolBytes {
			t.Errorf("%s: counters took %d bytes and could take %d, more than %d", test.sharing, meter.bytes, meter.room, admin.ToolBytes)
		}
		if meter.kept > 0 || meter.open != 0 {
			t.Errorf("%s: the run kept %d counters in closed stores, and stores of %d bytes open", test.sharing, meter.kept, meter.open)
		}
		if held := meter.heap - before; held > admin.ToolBytes {
			t.Errorf("%s: the heap grew by %d bytes, more than %d", test.sharing, held, admin.ToolBytes)
		}
		t.Logf("%s, %d requests: %d, %d MiB of counters, %d MiB of heap", test.sharing, test.requests, w.Code, meter.bytes>>20, (meter.heap-before)>>20)
	}
}
