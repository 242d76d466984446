package rls_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/grpcapi"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// patience is how long tests wait for what must happen. No test depends on how soon.
const patience = 30 * time.Second

// now is a little after noon, so that the rest of a window is not a whole number of seconds.
func now() penstock.Instant {
	return penstock.InstantOf(time.Date(2026, 1, 1, 12, 0, 0, 300_000_000, time.UTC))
}

// What the tests share: a test has stores of its own, with a key prefix that no other has.
var (
	redis   = child.Shared[*redistest.Server]{Launch: func(ctx context.Context) (*redistest.Server, error) { return redistest.Launch(ctx) }}
	cluster = child.Shared[*redistest.Cluster]{Launch: func(ctx context.Context) (*redistest.Cluster, error) { return redistest.LaunchCluster(ctx, 3) }}
)

func TestMain(m *testing.M) { child.Main(m, &redis, &cluster) }

// onEveryStore runs a test in memory, on Redis and on a cluster. Each store it gets is empty.
func onEveryStore(t *testing.T, test func(t *testing.T, newStore func(testing.TB) storage.FullStore)) {
	t.Run("memory", func(t *testing.T) { test(t, newMemory) })
	t.Run("redis", func(t *testing.T) {
		test(t, onRedis(redisstore.Options{Addresses: []string{redis.Get(t).Addr}}))
	})
	t.Run("cluster", func(t *testing.T) {
		test(t, onRedis(redisstore.Options{Addresses: cluster.Get(t).Addrs, Mode: redisstore.Cluster}))
	})
}

func newMemory(t testing.TB) storage.FullStore {
	t.Helper()
	s, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// stores counts the stores on Redis, which their prefixes name.
var stores atomic.Int64

func onRedis(o redisstore.Options) func(testing.TB) storage.FullStore {
	return func(t testing.TB) storage.FullStore {
		t.Helper()
		o.KeyPrefix, o.Timeout = fmt.Sprintf("t%d:", stores.Add(1)), patience
		s, err := redisstore.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
}

func newEngine(t testing.TB, store penstock.Store, text string) *engine.Engine {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// byRules returns a limiter by Penstock rules.
func byRules(t testing.TB, store penstock.Store, text string) rls.Limiter {
	t.Helper()
	return byRulesWith(t, store, text, false)
}

func byRulesWith(t testing.TB, store penstock.Store, text string, refunds bool) rls.Limiter {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, overrides := newLimiter(t, snapshot, testServer{Store: store, Now: now, Refunds: refunds})
	return &rls.RuleLimiter{Engine: e, Overrides: overrides}
}

// testServer is what serves a file of envoyproxy/ratelimit.
type testServer struct {
	Store, Local penstock.Store
	Now          func() penstock.Instant

	Together, UnlessOver, Quota, Refunds bool
}

// byFile returns a limiter by a file of envoyproxy/ratelimit, at the fixed time of the tests.
func byFile(t testing.TB, text string, by testServer) rls.Limiter {
	t.Helper()
	by.Now = now
	return byFileNow(t, text, by)
}

// byFileNow is byFile by the stores' clocks.
func byFileNow(t testing.TB, text string, by testServer) rls.Limiter {
	t.Helper()
	files := []rules.File{{Name: "config.yaml", Data: []byte(text)}}
	snapshot, _, err := envoyratelimit.Options{Together: by.Together}.Compile(files, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, limiter := newLimiter(t, snapshot, by)
	return limiter
}

func newLimiter(t testing.TB, s *rules.Snapshot, by testServer) (*engine.Engine, rls.Limiter) {
	t.Helper()
	e, err := engine.New(engine.Options{Store: by.Store, Local: by.Local, Rules: engine.Fixed(s), Now: by.Now, Refunds: by.Refunds})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := envoyratelimit.NewLimiter(envoyratelimit.LimiterOptions{
		Engine: e, Rules: engine.Fixed(s), Together: by.Together, UnlessOver: by.UnlessOver, Quota: by.Quota,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, limiter
}

const noRules = "rules: []"

// newServer returns a server for a limiter, with rules for external authorization.
func newServer(t testing.TB, limiter rls.Limiter, text string) *rls.Server {
	t.Helper()
	return newServerWith(t, limiter, text, rls.Options{})
}

// newServerWith is newServer with further options.
func newServerWith(t testing.TB, limiter rls.Limiter, text string, o rls.Options) *rls.Server {
	t.Helper()
	e := newEngine(t, newMemory(t), text)
	reader, err := httplimit.NewReader(httplimit.ReaderOptions{Sources: e.Sources, MaxDelay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{Headers: []string{httplimit.StyleIETF, httplimit.StyleXRateLimit}})
	if err != nil {
		t.Fatal(err)
	}
	o.Limiter, o.Decider, o.Reader, o.Writer = limiter, e, reader, writer
	s, err := rls.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// connect serves over gRPC, and returns a connection.
func connect(t testing.TB, s *rls.Server) *grpc.ClientConn {
	t.Helper()
	e := newEngine(t, newMemory(t), noRules)
	server, err := grpcapi.NewServer(grpcapi.Options{Decider: e, Concluder: e}, grpc.ConnectionTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	s.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn
}

func newClient(t testing.TB, limiter rls.Limiter) rlsv3.RateLimitServiceClient {
	t.Helper()
	return rlsv3.NewRateLimitServiceClient(connect(t, newServer(t, limiter, noRules)))
}

func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// descriptor parses key=value, with commas between entries.
func descriptor(text string) *descriptorv3.RateLimitDescriptor {
	d := &descriptorv3.RateLimitDescriptor{}
	for entry := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

func costing(hits uint64, d *descriptorv3.RateLimitDescriptor) *descriptorv3.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

func limited(count uint32, unit typev3.RateLimitUnit, d *descriptorv3.RateLimitDescriptor) *descriptorv3.RateLimitDescriptor {
	d.Limit = &descriptorv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: count, Unit: unit}
	return d
}

// ask returns a request. Descriptors are given as texts or as values.
func ask(descriptors ...any) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{Domain: "mesh"}
	for _, d := range descriptors {
		if text, ok := d.(string); ok {
			d = descriptor(text)
		}
		r.Descriptors = append(r.Descriptors, d.(*descriptorv3.RateLimitDescriptor))
	}
	return r
}

func withHits(hits uint32, descriptors ...any) *rlsv3.RateLimitRequest {
	r := ask(descriptors...)
	r.HitsAddend = hits
	return r
}

// brief returns a response on one line: the overall code, and for each descriptor its code, its limit, what remains
// and until when.
func brief(r *rlsv3.RateLimitResponse) string {
	var b strings.Builder
	b.WriteString(r.GetOverallCode().String())
	for _, s := range r.GetStatuses() {
		b.WriteString(" | " + s.Code.String())
		if l := s.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " %s %d/%v", l.Name, l.RequestsPerUnit, l.Unit)
		}
		if s.LimitRemaining > 0 || s.CurrentLimit != nil {
			fmt.Fprintf(&b, " %d left", s.LimitRemaining)
		}
		if d := s.DurationUntilReset; d != nil {
			fmt.Fprintf(&b, " for %v", d.AsDuration())
		}
	}
	return b.String()
}

// A step is a request and its brief response.
type step struct {
	ask  *rlsv3.RateLimitRequest
	want string
}

func run(t *testing.T, limiter rls.Limiter, steps []step) {
	t.Helper()
	client := newClient(t, limiter)
	for i, s := range steps {
		r, err := client.ShouldRateLimit(patient(t), s.ask)
		if got := brief(r); err != nil || got != s.want {
			t.Errorf("step %d: %v: %v\ngot  %s\nwant %s", i, s.ask, err, got, s.want)
		}
	}
}
