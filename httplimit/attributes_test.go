package httplimit

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules/live"
)

const (
	byHeaderRule = `
attributes: {user: {header: X-User}}
rules:
  - {name: per-user, key: [user], limits: [1/1h]}
`
	undeclaredRule = `
rules:
  - {name: per-tenant, key: [tenant], limits: [1/1h]}
`
	byClaimRule = `
attributes: {user: {claim: sub}}
rules:
  - {name: per-user, match: {when: 'user != ""'}, key: [ip], limits: [1/1h]}
`
)

// Rules keyed by a header limit without any configuration of where the header is read.
func TestSourcesAreTheEngines(t *testing.T) {
	l, err := New(newEngine(t, byHeaderRule), Options{})
	if err != nil {
		t.Fatal(err)
	}
	as := func(user string) func(*http.Request) {
		return func(req *http.Request) { req.Header.Set("X-User", user) }
	}
	h := l.Wrap(ok)
	if a, again, b := ask(h, as("a")), ask(h, as("a")), ask(h, as("b")); a != 200 || again != 429 || b != 200 {
		t.Errorf("%d, %d and another user %d; want 200, 429 and 200", a, again, b)
	}
}

// An attribute that no request can have is an error at the start that names the rule, the attribute, and what
// to do.
func TestAttributesThatNobodyProvides(t *testing.T) {
	noClaims := func(*http.Request) (Claims, error) { return nil, nil }
	for name, test := range map[string]struct {
		rules   string
		options ReaderOptions
		want    []string // of the error; empty: no error
	}{
		"a header":         {byHeaderRule, ReaderOptions{}, nil},
		"undeclared":       {undeclaredRule, ReaderOptions{}, []string{`rule "per-tenant"`, `"tenant"`, "attributes: {tenant: {header: X-tenant}}"}},
		"a claim":          {byClaimRule, ReaderOptions{}, []string{`rule "per-user"`, `"user"`, `"sub"`, "ReaderOptions.Claims"}},
		"a verified claim": {byClaimRule, ReaderOptions{Claims: noClaims}, nil},
		"another domain":   {strings.Replace(undeclaredRule, "key:", "match: {domain: internal}, key:", 1), ReaderOptions{}, nil},
		"that domain":      {strings.Replace(undeclaredRule, "key:", "match: {domain: internal}, key:", 1), ReaderOptions{Domain: "internal"}, []string{`"tenant"`}},
		"off":              {strings.Replace(undeclaredRule, "key:", "mode: 'off', key:", 1), ReaderOptions{}, nil},
		"the key":          {strings.ReplaceAll(undeclaredRule, "tenant", "key"), ReaderOptions{Key: ByIP()}, nil},
		"no key":           {strings.ReplaceAll(undeclaredRule, "tenant", "key"), ReaderOptions{}, []string{"ReaderOptions.Key"}},
	} {
		_, err := New(newEngine(t, test.rules), Options{ReaderOptions: test.options})
		if (err != nil) != (test.want != nil) || err != nil && !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range test.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no word of %s in: %v", name, want, err)
			}
		}
	}
}

// Rules loaded later that read such an attribute are rejected, and the current ones stay.
func TestReloadWithAttributesThatNobodyProvides(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(byHeaderRule)
	news := make(chan live.Status, 100)
	origin, err := live.NewFiles(file)
	if err != nil {
		t.Fatal(err)
	}
	followed, err := live.Follow(t.Context(), origin, live.Options{
		Interval: 10 * time.Millisecond, Changed: func(s live.Status) { news <- s },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer followed.Close()
	store, err := memstore.New(memstore.Options{MaxBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	e, err := engine.New(engine.Options{Store: store, Rules: followed})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(e, Options{}); err != nil {
		t.Fatal(err)
	}
	await := func(what string, is func(live.Status) bool) live.Status {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			select {
			case s := <-news:
				if is(s) {
					return s
				}
			case <-ctx.Done():
				t.Fatalf("%s: never: %+v", what, followed.Status())
			}
		}
	}
	write(undeclaredRule)
	s := await("refused", func(s live.Status) bool { return s.Refused != nil })
	if text := s.Refused.Err.Error(); !strings.Contains(text, `rule "per-tenant"`) || !strings.Contains(text, `"tenant"`) {
		t.Errorf("refused with %s", text)
	}
	if got := followed.Load().Rules[0].Name; got != "per-user" {
		t.Errorf("the rule %s is served", got)
	}
	write(strings.Replace(byHeaderRule, "per-user", "per-person", 1))
	await("served again", func(s live.Status) bool { return s.Refused == nil && followed.Load().Rules[0].Name == "per-person" })
}
