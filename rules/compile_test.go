package rules

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// snapshotOf returns the snapshot of a text without errors.
func snapshotOf(t testing.TB, text string) *Snapshot {
	t.Helper()
	doc, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := Compile(doc, Options{Secret: "s", Version: 7, Now: testNow})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ruleWith returns the rule of a document that has one, given its fields below name and key.
func ruleWith(t testing.TB, fields string) *Rule {
	t.Helper()
	lines := strings.ReplaceAll(strings.TrimSpace(fields), "\n", "\n    ")
	s := snapshotOf(t, "attributes: {user: {header: X-User}, plan: {claim: plan}}\nrules:\n  - name: r\n    key: [user]\n    "+lines)
	return s.Rules[0]
}

func limitsOf(meters []*algorithm.Meter) (texts []string) {
	for _, m := range meters {
		texts = append(texts, m.String())
	}
	return texts
}

func TestDefaults(t *testing.T) {
	r := ruleWith(t, "limits: [100/1m]")
	if r.Domain() != penstock.DefaultDomain || r.Mode != Enforce || r.OnStoreError != FailLocal || r.Leased || r.Cost != (Cost{}) {
		t.Errorf("%+v", r)
	}
	if r.Penalty != nil || r.Dedup != nil || r.Reserve != 0 || !r.Expires.IsZero() {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"sliding_window_counter 100/1m"}, limitsOf(r.Limits)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"r"}, r.Policies); diff != "" {
		t.Error(diff)
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{"100/1m", "sliding_window_counter 100/1m"},
		{"10/s", "sliding_window_counter 10/1s"},
		{"10/min", "sliding_window_counter 10/1m"},
		{"10/500ms", "sliding_window_counter 10/500ms"},
		{"1_000/1h30m", "sliding_window_counter 1000/1h30m"},
		{"10/1w", "sliding_window_counter 10/7d"},
		{"0/1m", "sliding_window_counter 0/1m"},
		{"{rate: 1000/1h, algorithm: fixed_window}", "fixed_window 1000/1h"},
		{"{rate: 10/s, burst: 20, algorithm: token_bucket}", "token_bucket 10/1s burst 20"},
		{"{rate: 3/60s, burst: 3, algorithm: token_bucket, refill: interval}", "token_bucket 3/1m refill interval burst 3"},
		{"{rate: 4/60s, queue: 6, algorithm: leaky_bucket}", "leaky_bucket 4/1m queue 6"},
		{"{rate: 5000/month, timezone: Europe/Berlin, algorithm: fixed_window}", "fixed_window 5000/month Europe/Berlin"},
		{"{rate: 5/year, algorithm: fixed_window}", "fixed_window 5/year"},
		{"{concurrent: 5, ttl: 30s, algorithm: concurrency}", "concurrency 5/30s"},
		{"{concurrent: 5, ttl: 30s}", "concurrency 5/30s"},
	} {
		r := ruleWith(t, "limits: ["+c.written+"]")
		if diff := cmp.Diff([]string{c.want}, limitsOf(r.Limits)); diff != "" {
			t.Errorf("%s: %s", c.written, diff)
		}
	}
}

// The short settings mean the same as the limits and the penalty that they abbreviate.
func TestShortForms(t *testing.T) {
	short := ruleWith(t, `
requests_per_minute: 10
requests_per_hour: 100
enable_progressive_limits: true
progressive_ban_durations: [60, 5m, 3600]`)
	long := ruleWith(t, `
limits: [{rate: 10/1m, algorithm: sliding_window_log}, {rate: 100/1h, algorithm: sliding_window_log}]
penalty: {after: 1, within: 1m, bans: [1m, 5m, 1h], forgive_after: 24h}`)
	if diff := cmp.Diff(limitsOf(long.Limits), limitsOf(short.Limits)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(long.Penalty.Terms(), short.Penalty.Terms()); diff != "" {
		t.Error(diff)
	}
	if r := ruleWith(t, "limits: [1/1m]\nenable_progressive_limits: false\nprogressive_ban_durations: [60]"); r.Penalty != nil {
		t.Errorf("disabled, and yet %v", r.Penalty)
	}
	if r := ruleWith(t, "limits: [1/1m]\nenable_progressive_limits: true"); len(r.Penalty.Bans) != len(defaultBans) {
		t.Errorf("by default %v", r.Penalty.Terms())
	}
}

// A replay budget depends on the smallest limit that applies, and counts as that limit does.
func TestReplayBudget(t *testing.T) {
	for _, c := range []struct {
		limits, budget string
		count          int64
		meter          string
	}{
		{"[{rate: 100/1m, algorithm: fixed_window}]", "", 10, "fixed_window 10/1m"},
		{"[{rate: 100/1m, algorithm: sliding_window_log}]", "", 10, "sliding_window_log 10/1m"},
		{"[{rate: 100/1m, algorithm: sliding_window_counter}]", "", 10, "sliding_window_counter 10/1m"},
		{"[{rate: 100/1m, algorithm: token_bucket, burst: 500}]", "", 10, "token_bucket 10/1m"},
		{"[{rate: 100/1m, algorithm: token_bucket, refill: interval}]", "", 10, "token_bucket 10/1m refill interval"},
		{"[{rate: 100/1m, algorithm: leaky_bucket, queue: 20}]", "", 10, "token_bucket 10/1m"},
		{"[100/1m]", "replay_budget: 25%", 25, "sliding_window_counter 25/1m"},
		{"[100/1m]", "replay_budget: 7", 7, "sliding_window_counter 7/1m"},
		{"[5/1m]", "", 1, "sliding_window_counter 1/1m"},
		{"[5/1m, 100/1h]", "replay_budget: 100%", 100, "token_bucket 100/1h burst 5"},
		{"[100/1m, 1000/1h]", "", 100, "token_bucket 100/1h burst 10"},
		{"[100/1m, 1000/1h]", "replay_budget: 7", 7, "token_bucket 7/1h burst 7"},
		{"[10/1s, {rate: 1000/day, algorithm: fixed_window}, 1000/1m]", "", 100, "token_bucket 100/2d burst 1"},
		{"[{concurrent: 1, ttl: 30s}, 100/1m, 1000/1h]", "", 100, "token_bucket 100/1h burst 10"},
		{"[10/1m, 1000/1h]", "", 1, "sliding_window_counter 1/1m"},
		{"[100/1m, 100/1h]", "replay_budget: 50%", 50, "sliding_window_counter 50/1h"},
		{"[1000/1h, {rate: 50/day, algorithm: fixed_window}]", "replay_budget: 10%", 5, "fixed_window 5/day"},
		{"[5/1h, 0/1m]", "replay_budget: 7", 0, "sliding_window_counter 0/1m"},
		{"[{concurrent: 1, ttl: 30s}, 100/1m]", "", 10, "sliding_window_counter 10/1m"},
		{"[{concurrent: 20, ttl: 30s}]", "", 2, "fixed_window 2/30s"},
		{"[{rate: 1_000_000_000_000/day, algorithm: fixed_window}]", "replay_budget: 99%", 990_000_000_000, "fixed_window 990000000000/day"},
	} {
		r := ruleWith(t, "limits: "+c.limits+"\ndedup: {ttl: 10s, "+c.budget+"}")
		got := r.Dedup.Terms()
		if meter := r.Dedup.Budget.String(); got.Budget != c.count || meter != c.meter || got.MaxReplays != 1 {
			t.Errorf("%s %s: %s, %+v", c.limits, c.budget, meter, got)
		}
	}
	r := ruleWith(t, `
limits: [100/1m]
dedup: {ttl: 10s, max_replays: 3}
overrides:
  - {match: {plan: gold}, limits: [5000/1h]}
  - {match: {plan: platinum}, limits: unlimited}`)
	if got := r.Overrides[0].Dedup.Terms(); got.Budget != 500 || got.Beside.Window != time.Hour || got.MaxReplays != 3 {
		t.Errorf("override: %+v", got)
	}
	if o := r.Overrides[1]; o.Dedup != nil || o.Limits != nil || !o.Unlimited {
		t.Errorf("unlimited: %+v", o)
	}
}

// Settings of a rule for all its limits apply to those that support them, in overrides too.
func TestRuleLendsToItsLimits(t *testing.T) {
	r := ruleWith(t, `
limits: [100/1m, {rate: 10/s, algorithm: token_bucket}, {concurrent: 5, ttl: 30s}]
count_denied: true
overdraft: {max: 50}
overrides:
  - {match: {plan: gold}, limits: [{rate: 9/1m, algorithm: leaky_bucket}, 200/1m]}`)
	want := []string{"sliding_window_counter 100/1m count_denied overdraft 50", "token_bucket 10/1s overdraft 50", "concurrency 5/30s"}
	if diff := cmp.Diff(want, limitsOf(r.Limits)); diff != "" {
		t.Error(diff)
	}
	want = []string{"leaky_bucket 9/1m queue 0", "sliding_window_counter 200/1m count_denied overdraft 50"}
	if diff := cmp.Diff(want, limitsOf(r.Overrides[0].Limits)); diff != "" {
		t.Error(diff)
	}
}

// Limits that would share their state are distinguished by their numbers, so that their order does not matter.
func TestOrderOfLimitsDoesNotMatter(t *testing.T) {
	limits := []string{
		"{rate: 10/s, burst: 20, algorithm: token_bucket}",
		"{rate: 10/s, burst: 30, algorithm: token_bucket}",
		"{rate: 5/s, burst: 100, algorithm: token_bucket}",
		"100/1m",
		"{rate: 50/1m, algorithm: fixed_window}",
		"{rate: 60/1m, algorithm: fixed_window}",
	}
	fingerprints := func(order []string) map[string]uint64 {
		of := map[string]uint64{}
		r := ruleWith(t, "limits: ["+strings.Join(order, ", ")+"]")
		for i, m := range r.Limits {
			of[order[i]] = m.Fingerprint
		}
		names := slices.Clone(r.Policies)
		slices.Sort(names)
		if len(slices.Compact(names)) != len(order) {
			t.Errorf("two of %v are called the same", r.Policies)
		}
		return of
	}
	want := fingerprints(limits)
	seen := map[uint64]bool{}
	for limit, f := range want {
		if seen[f] {
			t.Errorf("%s shares its state with another", limit)
		}
		seen[f] = true
	}
	for range limits {
		limits = append(limits[1:], limits[0])
		if diff := cmp.Diff(want, fingerprints(limits)); diff != "" {
			t.Errorf("%v: %s", limits, diff)
		}
		slices.Reverse(limits)
		if diff := cmp.Diff(want, fingerprints(limits)); diff != "" {
			t.Errorf("%v: %s", limits, diff)
		}
	}
}

// Another count keeps the state of a limit; another algorithm, window or key does not.
func TestWhatKeepsState(t *testing.T) {
	before := ruleWith(t, "limits: [100/1m]")
	after := ruleWith(t, "limits: [50/60s]")
	if before.Limits[0].Fingerprint != after.Limits[0].Fingerprint || before.Subjects.Subject("alice") != after.Subjects.Subject("alice") {
		t.Error("another count starts fresh")
	}
	for _, limits := range []string{"[{rate: 100/1m, algorithm: fixed_window}]", "[100/2m]"} {
		if before.Limits[0].Fingerprint == ruleWith(t, "limits: "+limits).Limits[0].Fingerprint {
			t.Errorf("%s does not start fresh", limits)
		}
	}
	const text = "attributes: {user: {header: X-User}}\nrules: [{name: r, key: [%], limits: [100/1m]}]"
	user, optional, ip := snapshotOf(t, strings.Replace(text, "%", "user", 1)), snapshotOf(t, strings.Replace(text, "%", "user?", 1)), snapshotOf(t, strings.Replace(text, "%", "ip", 1))
	if user.Rules[0].Subjects.Subject("a") == ip.Rules[0].Subjects.Subject("a") {
		t.Error("another key does not start fresh")
	}
	if user.Rules[0].Subjects.Subject("a") != optional.Rules[0].Subjects.Subject("a") {
		t.Error("a key that became optional starts fresh")
	}
	if want := storage.NewHasher("s").Subject("default", "r", penstock.Attribute{Name: "user", Value: "a"}); user.Rules[0].Subjects.Subject("a") != want {
		t.Error("subjects are not those of the root package")
	}
}

func TestPolicies(t *testing.T) {
	r := ruleWith(t, `
limits: [100/1m, 1000/1h, {rate: 5000/month, algorithm: fixed_window}, {concurrent: 5, ttl: 30s},
  {rate: 5/s, algorithm: token_bucket}, {rate: 1/s, burst: 50, algorithm: token_bucket}, {rate: 60/1m, algorithm: fixed_window}]`)
	want := []string{
		"r:1m:sliding_window_counter", "r:1h", "r:month", "r:concurrent",
		"r:1s:token_bucket:continuous:1", "r:1s:token_bucket:continuous:0", "r:1m:fixed_window",
	}
	if diff := cmp.Diff(want, r.Policies); diff != "" {
		t.Error(diff)
	}
}

func TestCost(t *testing.T) {
	for written, want := range map[string]Cost{
		"3":                                      {Fixed: 3},
		"{attribute: user, default: 2, max: 10}": {Attribute: "user", Default: 2, Max: 10},
		"{response_header: X-Cost}":              {ResponseHeader: "X-Cost", Default: 1, Max: algorithm.MaxCount},
		"{response_bytes: true}":                 {ResponseBytes: true, Default: 1, Max: algorithm.MaxCount},
	} {
		got := ruleWith(t, "limits: [100/1m]\ncost: "+written).Cost
		if got != want || got.Afterwards() != strings.Contains(written, "response") {
			t.Errorf("%s: %+v", written, got)
		}
	}
}

func TestSnapshotIsOfItsText(t *testing.T) {
	a, b := snapshotOf(t, "rules: []"), snapshotOf(t, "rules: [] # the same, and yet another text")
	if a.Checksum == b.Checksum || a.Version != 7 || len(a.Checksum) != 64 {
		t.Errorf("%+v %+v", a, b)
	}
}

// A document can be compiled any number of times, concurrently, with the same result.
func TestCompileLeavesTheDocument(t *testing.T) {
	doc, _ := Parse("test.yaml", []byte("rules: [{name: A, key: [usr], limits: [10/1mn]}]"))
	_, warnings, err := Compile(doc, Options{})
	_, warningsAgain, errAgain := Compile(doc, Options{})
	if diff := cmp.Diff(warnings, warningsAgain); diff != "" || err.Error() != errAgain.Error() {
		t.Errorf("%s\n%v\n%v", diff, err, errAgain)
	}
}

// A document that was made without a text is written first, so that its problems have places.
func TestCompileWithoutText(t *testing.T) {
	doc := &Document{Rules: []RuleTerms{{Name: "a", Limits: []LimitTerms{{Rate: Rate{Count: 5, Window: time.Minute}}}}}}
	if s, _, err := Compile(doc, Options{}); err != nil || len(s.Rules) != 1 {
		t.Fatal(err)
	}
	doc.Rules[0].Name = "A"
	_, _, err := Compile(doc, Options{})
	if !errors.Is(err, penstock.ErrInvalid) || !strings.HasPrefix(err.Error(), `2:11: "A" cannot be the name of a rule`) {
		t.Error(err)
	}
}

// A parsed document can be changed. Otherwise the text would tell where a new rule has conditions: nowhere.
func TestCompileChangedDocument(t *testing.T) {
	const text = "rules: [{name: a, match: {path: /a}, key: [ip], limits: [1/1m]}]"
	doc, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	added := doc.Rules[0]
	added.Name, added.Match.Path = "b", "/b"
	doc.Rules = append(doc.Rules, added)
	doc.Rules[0].Limits[0].Rate.Count = 7 // shared by both
	s, _, err := Compile(doc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var m Match
	s.Match(&penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: "/a"}, {Name: "ip", Value: "192.0.2.1"}}}, 1, &m)
	if len(m.Rules) != 1 || m.Rules[0].Rule.Name != "a" || s.Rules[1].Limits[0].Limit().Count != 7 {
		t.Errorf("%d rules match, and the second has the limit %+v", len(m.Rules), s.Rules[1].Limits[0].Limit())
	}
	doc.Rules[1].Name = "B"
	if _, _, err := Compile(doc, Options{}); err == nil || !strings.Contains(err.Error(), `"B" cannot be the name of a rule`) {
		t.Error(err)
	}

	doc, _ = Parse("test.yaml", []byte(strings.Replace(text, "key", "mode: of, key", 1)))
	doc.Rules[0].Name = "c"
	if _, _, err := Compile(doc, Options{}); err == nil || !strings.Contains(err.Error(), "mode") {
		t.Error("a mode that cannot be read was left out:", err)
	}
}

func TestProvidedAttributes(t *testing.T) {
	doc, err := Parse("", []byte(`rules: [{name: a, key: [tenant], limits: [1/1m], match: {when: 'zone == "x"'}}]`))
	if err != nil {
		t.Fatal(err)
	}
	if _, warnings, err := Compile(doc, Options{Provided: []string{"tenant", "zone"}}); err != nil || len(warnings) > 0 {
		t.Error(warnings, err)
	}
	if _, _, err := Compile(doc, Options{}); err == nil {
		t.Error("an expression over an attribute that nobody knows")
	}
}

func TestProblem(t *testing.T) {
	_, err := Parse("rules.yaml", []byte("rules:\n  - name: a\n    key: []\n    limits:\n      - 100/1mn\n"))
	const want = "rules.yaml:5:14: unknown unit mn, did you mean min?\n" +
		"          - 100/1mn\n" +
		"                 ^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%v", err, want)
	}
	text, _ := json.Marshal(err)
	const wantJSON = `[{"severity":"error","path":"rules[0].limits[0]","file":"rules.yaml","line":5,"column":14,` +
		`"text":"      - 100/1mn","message":"unknown unit mn","hint":"did you mean min?"}]`
	if string(text) != wantJSON {
		t.Errorf("got\n%s\nwant\n%s", text, wantJSON)
	}
	var again Problems
	if err := json.Unmarshal(text, &again); err != nil || again.Error() != want {
		t.Error(again, err)
	}
}

// However many errors there are, the number reported is bounded.
func TestProblemsAreBounded(t *testing.T) {
	text := "rules:\n" + strings.Repeat("  - {name: A, key: [], limits: [1/1x], x: 1}\n", 2*maxProblems)
	_, err := Parse("", []byte(text))
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != maxProblems+1 {
		t.Fatalf("%d problems", len(problems))
	}
	if last := problems[maxProblems].String(); last != "checking stopped after 1000 errors; more are not shown" {
		t.Error(last)
	}
}

func TestBounds(t *testing.T) {
	for name, text := range map[string]string{
		"bytes":        "rules: []\n#" + strings.Repeat("x", MaxDocument),
		"not text":     "rules: []\nlists: {deny: [{user: \"\xff\"}]}",
		"fields":       "rules: []\n" + strings.Repeat("a: 1\n", 100_000),
		"flow fields":  "rules: {" + strings.Repeat("a: 1, ", 100_000) + "}",
		"brackets":     strings.Repeat("[", 100_000),
		"dashes":       strings.Repeat("- ", 100_000),
		"braces":       strings.Repeat("{a: ", 100_000),
		"question":     strings.Repeat("? ", 100_000),
		"JSON depth":   `{"rules": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}",
		"commas":       "rules: [" + strings.Repeat(",", 1_000_000) + "]",
		"items":        "rules: [" + strings.Repeat("x,", 1_000_000) + "]",
		"values":       "rules: [" + strings.Repeat("["+strings.Repeat("[],", 100_000)+"],", 50) + "]",
		"long value":   "rules: []\nlists: {deny: [{user: " + strings.Repeat("x", 1<<20) + "}]}",
		"many anchors": "rules: [" + strings.Repeat("&a a, ", 10_000) + "]",
	} {
		doc, err := Parse("", []byte(text))
		if err == nil {
			t.Errorf("%s: read", name)
		}
		if _, _, err := Compile(doc, Options{}); err == nil {
			t.Errorf("%s: compiled", name)
		}
	}
}
