package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// All errors are reported at once, each with its value, except addresses: they may contain a password.
func TestOptionMistakes(t *testing.T) {
	for _, c := range []struct {
		name    string
		options redisstore.Options
		say     []string
	}{
		{"nothing", redisstore.Options{}, []string{"addresses"}},
		{"everything wrong", redisstore.Options{
			Addresses: []string{"nohost", "also:no:port"}, Mode: "double", Master: "m", KeyPrefix: "a{b", Timeout: -time.Second, ConnectTimeout: -time.Minute,
		}, []string{"connect timeout -1m", "addresses[0]: must be host:port", "addresses[1]: must be host:port", `mode "double"`, `master "m"`, `key prefix "a{b"`, "timeout -1s"}},
		{"several for single", redisstore.Options{Addresses: []string{"127.0.0.1:1", "127.0.0.1:2"}}, []string{"single mode takes one"}},
		{"sentinel without a master", redisstore.Options{Addresses: []string{"127.0.0.1:1"}, Mode: redisstore.Sentinel}, []string{"master"}},
		{"master for a cluster", redisstore.Options{Addresses: []string{"127.0.0.1:1"}, Mode: redisstore.Cluster, Master: "m"}, []string{`master "m"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, err := redisstore.Open(c.options)
			if !errors.Is(err, algorithm.ErrInvalid) || store != nil {
				t.Fatalf("store %v, error %v; want none and ErrInvalid", store, err)
			}
			for _, part := range c.say {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("does not speak of %s: %v", part, err)
				}
			}
		})
	}
}

func TestKeyPrefixes(t *testing.T) {
	server, _ := serve(t)
	for _, c := range []struct {
		prefix string
		sound  bool
	}{
		{"p", true}, {"app:prod:pen:", true}, {"é:", true}, {strings.Repeat("a", 64), true}, {"\xff:", true}, {"%s*?[", true},
		{strings.Repeat("a", 65), false}, {"{", false}, {"}", false}, {"{tag}", false}, {"a b", false},
		{"a\x00", false}, {"a\r\n", false}, {"\x7f", false}, {"\t", false},
	} {
		store, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, KeyPrefix: c.prefix, Timeout: 30 * time.Second})
		if !c.sound {
			if !errors.Is(err, algorithm.ErrInvalid) {
				t.Errorf("prefix %q: error %v, want ErrInvalid", c.prefix, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("prefix %q: %v", c.prefix, err)
			continue
		}
		who, m := stranger(), eachKind(time.Hour)[0]
		take(t, store, one(0, who, charge(m, 1)))
		if ask(t, server.Addr, "EXISTS", redisstore.SubjectKey(c.prefix, who)) != "1" {
			t.Errorf("prefix %q: its key is missing", c.prefix)
		}
		store.Close()
	}
}

// Stores that share a server but not a prefix share no state.
func TestPrefixesAreApart(t *testing.T) {
	server, store := serve(t)
	other := dial(t, redisstore.Options{Addresses: []string{server.Addr}, KeyPrefix: "other:"})
	for _, m := range eachKind(time.Hour) {
		who := stranger()
		for range 3 {
			take(t, store, one(monday, who, charge(m, 1)))
		}
		if hit(t, store, monday, who, m) || !hit(t, other, monday, who, m) {
			t.Errorf("%v: the prefixes share a state, or neither has one", m)
		}
	}
}

func TestOpenWithoutServer(t *testing.T) {
	server, _ := serve(t)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}}); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), server.Addr) {
		t.Errorf("error %v: must wrap ErrUnavailable and name the address", err)
	}
}
