package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/storage"
)

// Of fifty simultaneous requests exactly ten pass, and the others get all details that clients use for
// waiting.
func TestExactly(t *testing.T) {
	e := newEngine(t, `
rules:
  - {name: per-caller, match: {method: POST, path: /grpc.testing.TestService/UnaryCall}, key: [ip], limits: [{rate: 10/1m, algorithm: fixed_window}]}
`, engine.Options{Now: noon})
	client, service := serve(t, newLimiter(t, e, grpclimit.Options{}))
	ctx := patient(t)

	type answer struct {
		err    error
		header metadata.MD
	}
	answers := make([]answer, 50)
	var calls sync.WaitGroup
	for i := range answers {
		calls.Go(func() {
			_, answers[i].err = client.UnaryCall(ctx, say("hello"), grpc.Header(&answers[i].header))
		})
	}
	calls.Wait()

	allowed := 0
	for _, a := range answers {
		wantMetadata(t, a.header, "ratelimit-policy", `"per-caller";q=10;w=60`)
		if a.err == nil {
			allowed++
			continue
		}
		wantCode(t, a.err, codes.ResourceExhausted)
		wantMetadata(t, a.header, "retry-after", "60")
		wantMetadata(t, a.header, "ratelimit", `"per-caller";r=0;t=60`)
		wantDetails(t, a.err, time.Minute, "per-caller", 10)
	}
	if allowed != 10 || service.reached.Load() != 10 {
		t.Errorf("%d calls passed and %d reached the service, want 10", allowed, service.reached.Load())
	}
}

func wantMetadata(t *testing.T, md metadata.MD, name, want string) {
	t.Helper()
	if got := md.Get(name); len(got) != 1 || got[0] != want {
		t.Fatalf("metadata %s is %q, want %q", name, got, want)
	}
}

func wantDetails(t *testing.T, err error, wait time.Duration, policy string, limit int64) {
	t.Helper()
	var retry *errdetails.RetryInfo
	var quota *errdetails.QuotaFailure
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	if got := retry.GetRetryDelay().AsDuration(); retry == nil || got != wait {
		t.Fatalf("retry info %v, want %v", retry, wait)
	}
	if v := quota.GetViolations(); len(v) != 1 || v[0].QuotaId != policy || v[0].QuotaValue != limit {
		t.Fatalf("quota failure %v, want one of %s, %d", quota, policy, limit)
	}
}

func TestDenials(t *testing.T) {
	e := newEngine(t, `
attributes: {who: {header: X-Who}, cost: {header: X-Cost}}
rules:
  - {name: blocked, match: {attributes: {who: blocked}}, key: [], limits: [0/1m]}
  - {name: roomy, match: {attributes: {who: blocked}}, key: [], limits: [100/1m]}
  - {name: tried-too, match: {attributes: {who: blocked}}, key: [], mode: shadow, limits: [0/1m]}
  - {name: costly, match: {attributes: {who: costly}}, key: [], cost: {attribute: cost, default: 1, max: 100}, limits: [10/1m]}
  - {name: banned, match: {attributes: {who: banned}}, key: [], limits: [{rate: 1/1m, algorithm: fixed_window}], penalty: {after: 1, within: 5m, bans: [10m]}}
  - {name: tried, match: {attributes: {who: tried}}, key: [], mode: shadow, limits: [0/1m]}
lists:
  deny: [{who: listed}]
  allow: [{who: friend}]
`, engine.Options{Now: noon})
	client, _ := serve(t, newLimiter(t, e, grpclimit.Options{}))
	call := func(who string, more ...string) (metadata.MD, error) {
		var header metadata.MD
		ctx := metadata.AppendToOutgoingContext(patient(t), append(more, "x-who", who)...)
		_, err := client.UnaryCall(ctx, say("hello"), grpc.Header(&header))
		return header, err
	}
	retryInfo := func(err error) *errdetails.RetryInfo {
		for _, d := range status.Convert(err).Details() {
			if r, ok := d.(*errdetails.RetryInfo); ok {
				return r
			}
		}
		return nil
	}

	t.Run("a limit of nothing", func(t *testing.T) {
		header, err := call("blocked")
		wantCode(t, err, codes.ResourceExhausted)
		if r := retryInfo(err); r != nil || header.Get("retry-after") != nil {
			t.Errorf("told to retry: %v, %v", r, header)
		}
		if d := status.Convert(err).Details(); len(d) != 1 || len(d[0].(*errdetails.QuotaFailure).Violations) != 1 {
			t.Errorf("told %v, want one violation: the others let it pass or have no say", d)
		}
	})
	t.Run("a cost that never passes", func(t *testing.T) {
		_, err := call("costly", "x-cost", "50")
		wantCode(t, err, codes.ResourceExhausted)
		if want := "rate limited (costly); the cost exceeds the limit"; status.Convert(err).Message() != want {
			t.Errorf("told %q, want %q", status.Convert(err).Message(), want)
		}
	})
	t.Run("banned", func(t *testing.T) {
		_, err := call("banned")
		wantCode(t, err, codes.OK)
		_, err = call("banned")
		wantCode(t, err, codes.ResourceExhausted)
		header, err := call("banned")
		wantCode(t, err, codes.ResourceExhausted)
		wantMetadata(t, header, "retry-after", "600")
		if got := retryInfo(err).GetRetryDelay().AsDuration(); got != 10*time.Minute {
			t.Errorf("told to retry in %v, want 10m", got)
		}
		if text := status.Convert(err).Message(); !strings.HasPrefix(text, "banned temporarily") {
			t.Errorf("told %q", text)
		}
	})
	t.Run("on the deny list", func(t *testing.T) {
		_, err := call("listed")
		wantCode(t, err, codes.PermissionDenied)
	})
	t.Run("on the allow list", func(t *testing.T) {
		header, err := call("friend")
		wantCode(t, err, codes.OK)
		if got := header.Get("ratelimit"); got != nil {
			t.Errorf("told of limits: %q", got)
		}
	})
	t.Run("a rule that is only tried", func(t *testing.T) {
		header, err := call("tried")
		wantCode(t, err, codes.OK)
		if got := header.Get("ratelimit"); got != nil {
			t.Errorf("told of limits: %q", got)
		}
	})
}

// goneStore is a store that does not answer.
type goneStore struct{}

func (goneStore) Take(context.Context, *storage.Ticket, *storage.Outcome) error {
	return penstock.ErrUnavailable
}

func TestStoreGone(t *testing.T) {
	e := newEngine(t, `
attributes: {who: {header: X-Who}}
rules:
  - {name: strict, match: {attributes: {who: strict}}, key: [], on_store_error: deny, limits: [1/1m]}
  - {name: lenient, match: {attributes: {who: lenient}}, key: [], on_store_error: allow, limits: [1/1m]}
`, engine.Options{Store: goneStore{}})
	var mu sync.Mutex
	var errs []error
	client, _ := serve(t, newLimiter(t, e, grpclimit.Options{OnError: func(method string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if method != unaryCall {
			t.Errorf("error of %q", method)
		}
		errs = append(errs, err)
	}}))
	for who, want := range map[string]codes.Code{"strict": codes.Unavailable, "lenient": codes.OK} {
		_, err := client.UnaryCall(metadata.AppendToOutgoingContext(patient(t), "x-who", who), say("hello"))
		wantCode(t, err, want)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(errs) != 2 || !errors.Is(errs[0], penstock.ErrUnavailable) {
		t.Errorf("errors %v, want two of the store", errs)
	}
}

// Details are sent as a header, whose size clients limit.
func TestManyViolations(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 20 {
		fmt.Fprintf(&text, "  - {name: rule-%d, key: [], limits: [0/1m]}\n", i)
	}
	client, _ := serve(t, newLimiter(t, newEngine(t, text.String(), engine.Options{}), grpclimit.Options{}))
	_, err := client.UnaryCall(patient(t), say("hello"))
	wantCode(t, err, codes.ResourceExhausted)
	for _, d := range status.Convert(err).Details() {
		if q, ok := d.(*errdetails.QuotaFailure); !ok || len(q.Violations) != 16 {
			t.Errorf("told %v, want 16 violations and no wait", d)
		}
	}
}

// A service behind an UnknownServiceHandler might read such names as others.
func TestMalformedMethods(t *testing.T) {
	l := newLimiter(t, newEngine(t, "rules: []", engine.Options{}), grpclimit.Options{})
	for _, method := range []string{"", "grpc.testing.TestService/UnaryCall", "/" + unaryCall, "/a/../b", "/a/./b", "/a/%62", "/a/b\x00", `/a\b`, "/a/b?c"} {
		_, err := l.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
			t.Errorf("%q reached the service", method)
			return nil, nil
		})
		wantCode(t, err, codes.Unimplemented)
	}
}

func TestNewMistakes(t *testing.T) {
	_, err := grpclimit.New(nil, grpclimit.Options{
		ReaderOptions: httplimit.ReaderOptions{IPv6Prefix: 129},
		WriterOptions: httplimit.WriterOptions{Headers: []string{"loud"}},
	})
	if !errors.Is(err, penstock.ErrInvalid) {
		t.Fatalf("error %v, want an invalid one", err)
	}
	for _, want := range []string{"new gRPC limiter", "needs a decider", "129", `"loud"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// A request that cannot be read is rejected with the reason, and never reaches the service.
func TestRefused(t *testing.T) {
	e := newEngine(t, "attributes: {who: {header: X-Who}}\nrules:\n  - {name: per-who, key: [who], limits: [10/1m]}\n", engine.Options{})
	client, service := serve(t, newLimiter(t, e, grpclimit.Options{}))
	ctx := metadata.AppendToOutgoingContext(patient(t), "x-who", strings.Repeat("x", 9<<10))
	_, err := client.UnaryCall(ctx, say("hello"))
	wantCode(t, err, codes.InvalidArgument)
	if text := status.Convert(err).Message(); !strings.Contains(text, "at most 8192") {
		t.Errorf("told %q", text)
	}
	if service.reached.Load() != 0 {
		t.Error("it reached the service")
	}
}

// A client that disconnects at the right moment must not get around the limits.
func TestGivingUpIsNoWayPast(t *testing.T) {
	l := newLimiter(t, newEngine(t, "rules: [{name: one, key: [], limits: [1/1h]}]", engine.Options{}), grpclimit.Options{})
	ctx, cancel := context.WithCancel(peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1}}))
	cancel()
	_, err := l.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryCall}, func(context.Context, any) (any, error) {
		t.Error("it went on")
		return nil, nil
	})
	wantCode(t, err, codes.Canceled)
}
