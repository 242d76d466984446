package engine_test

import (
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
)

// compile returns the snapshot of a text.
func compile(t testing.TB, text string) *rules.Snapshot {
	t.Helper()
	return compileWith(t, text, rules.Options{Secret: "of the tests", Version: 1})
}

func compileWith(t testing.TB, text string, o rules.Options) *rules.Snapshot {
	t.Helper()
	doc, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := rules.Compile(doc, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newMemory(t testing.TB) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newRedis(t testing.TB, server *redistest.Server, prefix string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, KeyPrefix: prefix, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// newEngine returns an engine for rules, in memory unless the options say otherwise.
func newEngine(t testing.TB, text string, o engine.Options) *engine.Engine {
	t.Helper()
	if o.Store == nil {
		o.Store = newMemory(t)
	}
	if o.Rules == nil {
		o.Rules = engine.Fixed(compile(t, text))
	}
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// attributes returns attributes from name, value, name, value.
func attributes(pairs ...string) (all []penstock.Attribute) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, penstock.Attribute{Name: pairs[i], Value: pairs[i+1]})
	}
	return all
}
