package redisstore_test

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// runningServer returns the options for a server that the tests did not start, such as a managed service:
// redis://user:password@host:port, rediss:// with TLS, and ?mode=cluster. The keys of each run have a prefix of their
// own.
func runningServer(text string) (redisstore.Options, error) {
	u, err := url.Parse(text)
	if err != nil {
		return redisstore.Options{}, fmt.Errorf("PENSTOCK_TEST_REDIS_URL is not a URL") // the error of Parse has the password
	}
	o := redisstore.Options{
		Addresses: []string{u.Host}, Username: u.User.Username(), Mode: redisstore.Mode(u.Query().Get("mode")),
		KeyPrefix: fmt.Sprintf("pen-test-%d:", time.Now().UnixNano()), Timeout: 30 * time.Second,
	}
	password, _ := u.User.Password()
	o.Password = redisstore.Secret(password)
	switch u.Scheme {
	case "redis":
	case "rediss":
		o.TLS = &tls.Config{ServerName: u.Hostname()}
	default:
		return o, fmt.Errorf("PENSTOCK_TEST_REDIS_URL has the scheme %q; use redis or rediss", u.Scheme)
	}
	return o, o.Validate()
}

// TestContractRunning runs the contract on any server that speaks Redis' protocol, without starting it.
func TestContractRunning(t *testing.T) {
	text := os.Getenv("PENSTOCK_TEST_REDIS_URL")
	if text == "" {
		t.Skip("set PENSTOCK_TEST_REDIS_URL to the redis:// URL of a running server")
	}
	o, err := runningServer(text)
	if err != nil {
		t.Fatal(err)
	}
	suite := storetest.Suite{OneSubject: o.Mode == redisstore.Cluster, Open: func(t testing.TB, n int) []storage.Store {
		stores := make([]storage.Store, n)
		for i := range stores {
			stores[i] = dial(t, o)
		}
		return stores
	}}
	suite.Run(t)
}

func TestRunningServer(t *testing.T) {
	server := redistest.Start(t)
	grant(t, server.Addr, strings.ReplaceAll(aclCommands, "+evalsha", "~pen-test-* +evalsha"))
	o, err := runningServer("redis://" + aclUser + ":" + password + "@" + server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Hour}.MustCompile()
	s, who := dial(t, o), stranger()
	if !hit(t, s, monday, who, m) || hit(t, s, monday, who, m) {
		t.Error("a limit of 1 does not allow exactly 1")
	}
	if keys := ask(t, server.Addr, "KEYS", "*"); !strings.HasPrefix(keys, o.KeyPrefix) || strings.Contains(keys, "\n") {
		t.Errorf("keys %q do not have the prefix of this run, %s", keys, o.KeyPrefix)
	}
	if o, err := runningServer("rediss://cache.example:6380/?mode=cluster"); err != nil || o.TLS == nil || o.Mode != redisstore.Cluster {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, wrong := range []string{"http://127.0.0.1:6379", "redis://127.0.0.1", "redis://127.0.0.1:6379?mode=ring"} {
		if o, err := runningServer(wrong); err == nil {
			t.Errorf("%s is accepted: %+v", wrong, o)
		}
	}
}
