package httplimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/penstock-io/penstock"
)

func TestFields(t *testing.T) {
	fixed := penstock.LimitVerdict{
		Rule: "search", Policy: "search", Algorithm: penstock.FixedWindow, Count: 100, Window: time.Minute,
		Decision: penstock.Decision{Allowed: true, Limit: 100, Used: 50, Remaining: 50, ResetAfter: 29500 * time.Millisecond},
	}
	with := func(change func(*penstock.LimitVerdict)) penstock.LimitVerdict {
		l := fixed
		change(&l)
		return l
	}
	for _, test := range []struct {
		name          string
		limits        []penstock.LimitVerdict
		policy, state string
	}{
		{"nothing", nil, "", ""},
		{"fixed window", []penstock.LimitVerdict{fixed}, `"search";q=100;w=60`, `"search";r=50;t=30`},
		{"shadow", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) { l.Shadow = true })}, "", ""},
		{"several", []penstock.LimitVerdict{
			with(func(l *penstock.LimitVerdict) { l.Shadow = true }),
			with(func(l *penstock.LimitVerdict) { l.Policy = "search:1m" }),
			with(func(l *penstock.LimitVerdict) {
				l.Policy, l.Window, l.Limit, l.Remaining, l.ResetAfter = "search:1h", time.Hour, 1000, 900, time.Hour
			}),
		}, `"search:1m";q=100;w=60, "search:1h";q=1000;w=3600`, `"search:1m";r=50;t=30, "search:1h";r=900;t=3600`},
		{"untouched", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) { l.Used, l.Remaining, l.ResetAfter = 0, 100, 0 })},
			`"search";q=100;w=60`, `"search";r=100`},
		{"denied", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) {
			l.Allowed, l.Remaining, l.RetryAfter = false, 0, 11740*time.Millisecond
		})}, `"search";q=100;w=60`, `"search";r=0;t=12`},
		{"never", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) { l.Allowed, l.RetryAfter = false, penstock.Never })},
			`"search";q=100;w=60`, `"search";r=50`},
		{"sliding", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) {
			l.Algorithm, l.ResetAfter = penstock.SlidingWindowCounter, 2*time.Minute
		})}, `"search";q=100;w=60`, `"search";r=50;t=62`},
		{"token bucket of 10 a second, up to 100", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) {
			l.Algorithm, l.Count, l.Window, l.ResetAfter = penstock.TokenBucket, 10, time.Second, 4950*time.Millisecond
		})}, `"search";q=100;w=10`, `"search";r=50;t=1`},
		{"token bucket of an unknown rate", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) {
			l.Algorithm, l.Count, l.Window, l.ResetAfter = penstock.TokenBucket, 0, time.Second, 4950*time.Millisecond
		})}, `"search";q=100`, `"search";r=50;t=1`},
		{"slow token bucket", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) {
			l.Algorithm, l.Count, l.Limit, l.Window, l.Used, l.Remaining, l.ResetAfter = penstock.TokenBucket, 2, 5, time.Minute, 3, 2, 80*time.Second
		})}, `"search";q=5;w=150`, `"search";r=2;t=20`},
		{"leaky bucket", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) {
			l.Algorithm, l.Count, l.Limit, l.Window, l.Used, l.Remaining, l.ResetAfter = penstock.LeakyBucket, 20, 51, time.Second, 1, 50, 50*time.Millisecond
		})}, `"search";q=51;w=3`, `"search";r=50;t=1`},
		{"concurrency", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) {
			l.Algorithm, l.Count, l.Limit, l.Used, l.Remaining = penstock.Concurrency, 8, 8, 1, 7
		})}, `"search";q=8;qu="concurrent-requests"`, `"search";r=7`},
		{"a window below a second", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) { l.Window = time.Millisecond })},
			`"search";q=100;w=1`, `"search";r=50;t=1`},
		{"numbers that are none", []penstock.LimitVerdict{with(func(l *penstock.LimitVerdict) {
			l.Policy, l.Limit, l.Remaining, l.ResetAfter = "a\"\\\n\xff", 1<<62, -1, -5
		})}, `"a\"\\??";q=999999999999999;w=60`, `"a\"\\??";r=0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := http.Header{}
			newWriter(t).Headers(h, &penstock.Verdict{Allowed: true, Limits: test.limits})
			if test.policy == "" {
				if len(h) != 0 {
					t.Error(h)
				}
				return
			}
			if got := lines(h, "RateLimit-Policy"); len(got) != 1 || got[0] != test.policy {
				t.Errorf("RateLimit-Policy: %q, want %q", got, test.policy)
			}
			if got := lines(h, "RateLimit"); len(got) != 1 || got[0] != test.state {
				t.Errorf("RateLimit: %q, want %q", got, test.state)
			}
		})
	}
}

// parsedBack checks that a parser of structured fields reads what was intended.
func parsedBack(t *testing.T, v *penstock.Verdict) {
	t.Helper()
	h := http.Header{}
	newWriter(t).Headers(h, v)
	var shown []*penstock.LimitVerdict
	for i := range v.Limits {
		if !v.Limits[i].Shadow && len(shown) < maxListed {
			shown = append(shown, &v.Limits[i])
		}
	}
	policies, states := parsedList(t, lines(h, "RateLimit-Policy")), parsedList(t, lines(h, "RateLimit"))
	if len(policies) != len(shown) || len(states) != len(shown) {
		t.Fatalf("%d limits, got %d and %d: %v", len(shown), len(policies), len(states), h)
	}
	for i, l := range shown {
		policy, state := policies[i].(httpsfv.Item), states[i].(httpsfv.Item)
		if policy.Value != state.Value || isPlain(l.Policy) && policy.Value != l.Policy {
			t.Errorf("%q: %q and %q", l.Policy, policy.Value, state.Value)
		}
		if got := integer(t, policy, "q"); got != min(max(l.Limit, 0), maxInteger) {
			t.Errorf("q=%d of %+v", got, l)
		}
		if got := integer(t, state, "r"); got != min(max(l.Remaining, 0), maxInteger) {
			t.Errorf("r=%d of %+v", got, l)
		}
		if _, there := policy.Params.Get("w"); there && integer(t, policy, "w") < 1 {
			t.Errorf("w of %+v", l)
		}
		if _, there := state.Params.Get("t"); there && integer(t, state, "t") < 0 {
			t.Errorf("t of %+v", l)
		}
	}
}

func parsedList(t *testing.T, lines []string) httpsfv.List {
	t.Helper()
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	return list
}

func integer(t *testing.T, item httpsfv.Item, name string) int64 {
	t.Helper()
	value, _ := item.Params.Get(name)
	n, ok := value.(int64)
	if !ok {
		t.Fatalf("%s=%v (%T) is no integer", name, value, value)
	}
	return n
}

func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}

func TestFieldsAreParsedBack(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	names := []string{"a", "search-per-user", "x.y_z:1m", `quo"te`, `back\slash`, "ünï", "", "a b;c=d,e"}
	for range 5000 {
		v := penstock.Verdict{Allowed: random.IntN(2) == 0}
		for range random.IntN(40) {
			v.Limits = append(v.Limits, penstock.LimitVerdict{
				Policy: names[random.IntN(len(names))], Shadow: random.IntN(5) == 0,
				Algorithm: penstock.Algorithm(1 + random.IntN(6)), Count: anyNumber(random), Window: time.Duration(anyNumber(random)),
				Decision: penstock.Decision{
					Allowed: random.IntN(2) == 0, Limit: anyNumber(random), Used: anyNumber(random), Remaining: anyNumber(random),
					RetryAfter: time.Duration(anyNumber(random)), ResetAfter: time.Duration(anyNumber(random)),
				},
			})
		}
		parsedBack(t, &v)
	}
}

// anyNumber is of any magnitude, and sometimes negative.
func anyNumber(random *rand.Rand) int64 { return random.Int64()>>random.IntN(64) - random.Int64N(3) }

func FuzzFields(f *testing.F) {
	f.Add("search", uint8(1), int64(100), int64(60e9), int64(50), int64(30e9), true)
	f.Add(`a"\`, uint8(4), int64(1)<<60, int64(-1), int64(-1), int64(-1), false)
	f.Fuzz(func(t *testing.T, policy string, algorithm uint8, limit, window, remaining, after int64, allowed bool) {
		parsedBack(t, &penstock.Verdict{Limits: []penstock.LimitVerdict{{
			Policy: policy, Algorithm: penstock.Algorithm(algorithm), Count: remaining, Window: time.Duration(window),
			Decision: penstock.Decision{Allowed: allowed, Limit: limit, Used: remaining, Remaining: remaining, ResetAfter: time.Duration(after), RetryAfter: time.Duration(after)},
		}}})
	})
}

func TestFieldsOfOthersStay(t *testing.T) {
	h := http.Header{"RateLimit": {`"theirs";r=1`}, "X-Ratelimit-Limit": {"7"}}
	h.Set("RateLimit-Policy", `"theirs";q=2`)
	newWriter(t, "ietf", "x-ratelimit").Headers(h, &penstock.Verdict{
		Allowed: true, Decision: penstock.Decision{Allowed: true, Limit: 5},
		Limits: []penstock.LimitVerdict{{Policy: "ours", Algorithm: penstock.FixedWindow, Window: time.Second, Decision: penstock.Decision{Allowed: true, Limit: 5}}},
	})
	for name, want := range map[string]string{
		"RateLimit":         `["\"theirs\";r=1" "\"ours\";r=0"]`,
		"Ratelimit-Policy":  `["\"theirs\";q=2"]`,
		"RateLimit-Policy":  `["\"ours\";q=5;w=1"]`,
		"X-Ratelimit-Limit": `["7"]`,
		"X-RateLimit-Limit": `[]`,
		"X-RateLimit-Reset": `[]`,
	} {
		if got := fmt.Sprintf("%q", h[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestStyles(t *testing.T) {
	v := &penstock.Verdict{
		Reason: penstock.ReasonOverLimit, Rule: "a",
		Decision: penstock.Decision{Limit: 10, Used: 10, RetryAfter: 1500 * time.Millisecond, ResetAfter: time.Minute},
		Limits:   []penstock.LimitVerdict{{Rule: "a", Policy: "a", Algorithm: penstock.FixedWindow, Window: time.Minute, Decision: penstock.Decision{Limit: 10, RetryAfter: 1500 * time.Millisecond}}},
	}
	for _, test := range []struct {
		styles []string
		want   http.Header
	}{
		{nil, http.Header{"RateLimit": {`"a";r=0;t=2`}, "RateLimit-Policy": {`"a";q=10;w=60`}, "Retry-After": {"2"}}},
		{[]string{"x-ratelimit"}, http.Header{"X-RateLimit-Limit": {"10"}, "X-RateLimit-Remaining": {"0"}, "X-RateLimit-Reset": {"2"}, "Retry-After": {"2"}}},
		{[]string{"none"}, http.Header{"Retry-After": {"2"}}},
	} {
		h := http.Header{}
		newWriter(t, test.styles...).Headers(h, v)
		if fmt.Sprint(h) != fmt.Sprint(test.want) {
			t.Errorf("%q: %v", test.styles, h)
		}
	}
	_, err := NewWriter(WriterOptions{Headers: []string{"ietf", "draft", "none", "ietf"}})
	for _, says := range []string{`"draft"; one of ietf, x-ratelimit, x-ratelimit-unix, none`, `"none" beside`, `"ietf" twice`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
}

// Clients of GitHub's kind take X-RateLimit-Reset for Unix time, and return when it has passed.
func TestResetInUnixTime(t *testing.T) {
	now := time.Unix(1_000_000, int64(600*time.Millisecond))
	w, err := NewWriter(WriterOptions{Headers: []string{"ietf", "x-ratelimit-unix"}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		decision penstock.Decision
		want     string
	}{
		{penstock.Decision{Allowed: true, Limit: 10, Remaining: 4, ResetAfter: 400 * time.Millisecond}, "10 4 1000001"},
		{penstock.Decision{Allowed: true, Limit: 10, Remaining: 4, ResetAfter: 500 * time.Millisecond}, "10 4 1000002"},
		{penstock.Decision{Limit: 10, RetryAfter: 1400 * time.Millisecond, ResetAfter: time.Hour}, "10 0 1000002"},
		{penstock.Decision{Limit: 10, RetryAfter: penstock.Never, ResetAfter: time.Minute}, "10 0 1000061"},
	} {
		h := http.Header{}
		w.Headers(h, &penstock.Verdict{Allowed: test.decision.Allowed, Reason: penstock.ReasonOverLimit, Decision: test.decision})
		var values []string
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			values = append(values, h[name]...)
		}
		if got := strings.Join(values, " "); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.decision, got, test.want)
		}
	}
	if _, err := NewWriter(WriterOptions{Headers: []string{"x-ratelimit", "x-ratelimit-unix"}}); err == nil || !strings.Contains(err.Error(), "both x-ratelimit and x-ratelimit-unix") {
		t.Errorf("both: %v", err)
	}
}

// Two strings and their two slices: the minimum for two headers.
func TestHeadersAllocateLittle(t *testing.T) {
	w, h, v := newWriter(t), http.Header{}, overLimit()
	v.Allowed = true
	if n := testing.AllocsPerRun(1000, func() {
		clear(h)
		w.Headers(h, v)
	}); n > 4 {
		t.Errorf("%v allocations", n)
	}
}
