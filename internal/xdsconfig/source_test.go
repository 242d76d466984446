package xdsconfig_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.uber.org/goleak"

	"github.com/penstock-io/penstock/internal/certtest"
	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/xdsconfig"
	"github.com/penstock-io/penstock/internal/xdstest"
	"github.com/penstock-io/penstock/rules/live"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limits is a configuration of one domain with one limit per key.
func limits(domain string, unit configv3.RateLimitUnit, keys ...string) *configv3.RateLimitConfig {
	c := &configv3.RateLimitConfig{Name: domain + "-config", Domain: domain}
	for _, key := range keys {
		c.Descriptors = append(c.Descriptors, &configv3.RateLimitDescriptor{
			Key: key, RateLimit: &configv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: 10},
		})
	}
	return c
}

// A follower serves the configuration of a source.
type follower struct {
	*live.Rules
	t      *testing.T
	source *xdsconfig.Source
}

func tryFollow(t *testing.T, o xdsconfig.Options, lastGood string) (*follower, error) {
	t.Helper()
	source, err := xdsconfig.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	served, err := live.Follow(t.Context(), source, live.Options{
		Read: xdsconfig.Compile(envoyratelimit.Options{}), Considered: source.Considered, LastGood: lastGood,
		Interval: 20 * time.Millisecond, Timeout: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(served.Close)
	return &follower{served, t, source}, nil
}

func follow(t *testing.T, o xdsconfig.Options, lastGood string) *follower {
	t.Helper()
	o.Wait = time.Minute
	f, err := tryFollow(t, o, lastGood)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// serves waits until the limits have these names.
func (f *follower) serves(want ...string) {
	f.t.Helper()
	var names []string
	nodetest.Eventually(f.t, strings.Join(want, " ")+" is served", func() bool {
		names = nil
		for _, r := range f.Load().Rules {
			names = append(names, r.Name)
		}
		return slices.Equal(names, want)
	})
}

func TestServesWhatIsPushed(t *testing.T) {
	t.Parallel()
	m := xdstest.Start(t, "127.0.0.1:0", nil)
	m.Push("edge", "1", limits("mesh", configv3.RateLimitUnit_MINUTE, "user", "op"), limits("other", configv3.RateLimitUnit_DAY, "ip"))
	m.Push("default", "1", limits("mesh", configv3.RateLimitUnit_HOUR, "not for this node"))
	f := follow(t, xdsconfig.Options{
		Server: m.Address, NodeID: "edge", Metadata: map[string]string{"zone": "a"}, Headers: map[string]string{"Authorization": "Bearer of-good-news"},
	}, "")
	f.serves("mesh.user", "mesh.op", "other.ip")
	m.Push("edge", "2", limits("mesh", configv3.RateLimitUnit_MINUTE, "user"))
	f.serves("mesh.user")
	m.Push("edge", "3")
	f.serves()
	acked := func(want ...string) {
		t.Helper()
		nodetest.Eventually(t, strings.Join(want, " ")+" is acknowledged", func() bool {
			acked, nacked := m.Answers()
			return slices.Equal(acked, want) && len(nacked) == 0
		})
	}
	acked("1", "2", "3")
	if w := f.Status().Warnings; len(w) != 1 || !strings.Contains(w[0].String(), "every request passes") {
		t.Errorf("no limits at all: warnings %v", w)
	}
	m.Push("edge", "4") // without changes
	acked("1", "2", "3", "4")

	nodes, headers := m.Clients()
	if len(nodes) != 1 || nodes[0].Id != "edge" || nodes[0].Metadata.Fields["zone"].GetStringValue() != "a" {
		t.Errorf("the server was asked by %v", nodes)
	}
	if got := headers[0].Get("authorization"); !slices.Equal(got, []string{"Bearer of-good-news"}) {
		t.Errorf("headers %v", headers)
	}
}

func TestBadPushIsRefused(t *testing.T) {
	t.Parallel()
	m := xdstest.Start(t, "127.0.0.1:0", nil)
	good := limits("mesh", configv3.RateLimitUnit_MINUTE, "user")
	m.Push("default", "1", good)
	f := follow(t, xdsconfig.Options{Server: m.Address}, "")
	f.serves("mesh.user")

	m.Push("default", "2", limits("mesh", configv3.RateLimitUnit_MINUTE, "op"), limits("other", 99, "ip"))
	nodetest.Eventually(t, "the server hears why, more than once", func() bool {
		_, nacked := m.Answers()
		return len(nacked) > 1 && strings.HasPrefix(nacked[0], "2: other-config:") && strings.Contains(nacked[0], "invalid rate limit unit '99'")
	})
	f.serves("mesh.user")
	if s := f.Status(); s.Refused == nil || s.Refusals != 1 || !strings.Contains(s.Refused.Err.Error(), "invalid rate limit unit") {
		t.Errorf("status %+v", s)
	}
	m.Push("default", "3", good) // the same as what is served
	nodetest.Eventually(t, "the way back is acknowledged", func() bool {
		acked, _ := m.Answers()
		return slices.Equal(acked, []string{"1", "3"})
	})
	if s := f.Status(); s.Refused != nil || s.Refusals != 1 {
		t.Errorf("status %+v", s)
	}
	m.Push("default", "4", limits("mesh", configv3.RateLimitUnit_MINUTE, "op"))
	f.serves("mesh.op")
}

func TestReconnects(t *testing.T) {
	t.Parallel()
	m := xdstest.Start(t, "127.0.0.1:0", nil)
	m.Push("default", "1", limits("mesh", configv3.RateLimitUnit_MINUTE, "user"))
	f := follow(t, xdsconfig.Options{Server: m.Address}, "")
	f.serves("mesh.user")
	m.Stop()
	nodetest.Eventually(t, "the lost connection shows", func() bool {
		err := f.Status().Err
		return err != nil && strings.Contains(err.Error(), m.Address)
	})
	f.serves("mesh.user")
	next := xdstest.Start(t, m.Address, nil)
	next.Push("default", "1", limits("mesh", configv3.RateLimitUnit_MINUTE, "op"))
	f.serves("mesh.op")
	nodetest.Eventually(t, "the status is clean", func() bool { return f.Status().Err == nil })
}

func TestStartWithoutTheServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "last-good")
	m := xdstest.Start(t, "127.0.0.1:0", nil)
	if _, err := tryFollow(t, xdsconfig.Options{Server: m.Address}, file); err == nil || !strings.Contains(err.Error(), "has not yet sent a configuration") {
		t.Errorf("a server that has nothing for the node: %v", err)
	}
	m.Push("default", "1", limits("mesh", configv3.RateLimitUnit_MINUTE, "user"))
	first := follow(t, xdsconfig.Options{Server: m.Address}, file)
	first.serves("mesh.user")
	nodetest.Eventually(t, "a copy is kept", func() bool { _, err := os.Stat(file); return err == nil })
	m.Stop()

	second, err := tryFollow(t, xdsconfig.Options{Server: m.Address}, file)
	if err != nil {
		t.Fatal(err)
	}
	second.serves("mesh.user")
	if !second.Status().FromCopy {
		t.Error("the status does not say that this is a copy")
	}
	if _, err := tryFollow(t, xdsconfig.Options{Server: m.Address, Wait: time.Second}, ""); err == nil || !strings.Contains(err.Error(), m.Address) {
		t.Errorf("without a copy: %v", err)
	}
}

// With StartEmpty, a node starts without limits, and gets them when they arrive.
func TestStartEmpty(t *testing.T) {
	t.Parallel()
	m := xdstest.Start(t, "127.0.0.1:0", nil)
	f, err := tryFollow(t, xdsconfig.Options{Server: m.Address, StartEmpty: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	f.serves()
	if err := f.Status().Err; !errors.Is(err, live.ErrNoRules) {
		t.Errorf("the status says %v", err)
	}
	m.Push("default", "1", limits("mesh", configv3.RateLimitUnit_MINUTE, "user"))
	f.serves("mesh.user")
	nodetest.Eventually(t, "it is acknowledged", func() bool { acked, _ := m.Answers(); return slices.Equal(acked, []string{"1"}) })
}

func TestTLSToTheServer(t *testing.T) {
	ca := certtest.NewAuthority(t)
	own, client := ca.Issue(t, "localhost"), ca.Issue(t, "penstock")
	pair, err := tls.LoadX509KeyPair(own.Certificate, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	m := xdstest.Start(t, "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert})
	m.Push("default", "1", limits("mesh", configv3.RateLimitUnit_MINUTE, "user"))

	follow(t, xdsconfig.Options{Server: m.Address, TLS: func() (*tls.Config, error) { return ca.Client(t, client), nil }}, "").serves("mesh.user")
	another := certtest.NewAuthority(t)
	for name, secure := range map[string]func() (*tls.Config, error){
		"without TLS":           nil,
		"without a certificate": func() (*tls.Config, error) { return ca.Client(t), nil },
		"of another CA":         func() (*tls.Config, error) { return another.Client(t, client), nil },
		"unreadable":            func() (*tls.Config, error) { return nil, errors.New("no such file") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for its time to be over
			if _, err := tryFollow(t, xdsconfig.Options{Server: m.Address, TLS: secure, Wait: time.Second}, ""); err == nil {
				t.Error("it was let in")
			}
		})
	}
}

func TestServerIsRequired(t *testing.T) {
	if _, err := xdsconfig.New(xdsconfig.Options{}); err == nil {
		t.Error("no server")
	}
}
