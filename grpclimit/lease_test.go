package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
)

type blamingDecider struct{}

func (blamingDecider) Decide(_ context.Context, _ *penstock.Call, v *penstock.Verdict) error {
	v.Reset()
	return fmt.Errorf("%w call: it is", penstock.ErrInvalid)
}

// A stream keeps its permit until it ends, and then another request gets it.
func TestLeases(t *testing.T) {
	e := newEngine(t, "rules:\n  - {name: places, key: [], limits: [{concurrent: 2, ttl: 1h}]}\n", engine.Options{})
	client, _ := serve(t, newLimiter(t, e, grpclimit.Options{}))

	first, second := open(t, client), open(t, client)
	exchange(t, first, "hello")
	exchange(t, second, "hello")
	_, err := open(t, client).Recv()
	wantCode(t, err, codes.ResourceExhausted)
	_, err = client.UnaryCall(patient(t), say("hello"))
	wantCode(t, err, codes.ResourceExhausted)

	hangUp(t, first)
	for range 3 { // each releases its permit
		if _, err := client.UnaryCall(patient(t), say("hello")); err != nil {
			t.Fatal(err)
		}
	}
	_, err = client.UnaryCall(patient(t), say("panic"))
	wantCode(t, err, codes.Internal)
	third := open(t, client)
	exchange(t, third, "hello")
	hangUp(t, second)
	hangUp(t, third)
}

// The true cost comes with the answer: in metadata, however it is set, or as its size.
func TestCostFromAnswer(t *testing.T) {
	e := newEngine(t, `
rules:
  - {name: told, match: {path: /grpc.testing.TestService/UnaryCall}, key: [], cost: {response_header: X-Cost, default: 1, max: 50}, limits: [{rate: 1000/1m, algorithm: fixed_window}]}
  - {name: streamed, match: {path: /grpc.testing.TestService/FullDuplexCall}, key: [], cost: {response_header: X-Cost, default: 1, max: 50}, limits: [{rate: 1000/1m, algorithm: fixed_window}]}
`, engine.Options{Now: noon})
	client, _ := serve(t, newLimiter(t, e, grpclimit.Options{}))

	var used int64
	for body, cost := range map[string]int64{"set 37": 37, "send 5": 5, "trail 7": 7, "hello": 1} {
		if _, err := client.UnaryCall(patient(t), say(body)); err != nil {
			t.Fatal(err)
		}
		used += cost
		wantUsed(t, e, unaryCall, used)
	}
	if _, err := client.UnaryCall(patient(t), say("panic")); err == nil { // served nothing
		t.Fatal("no panic")
	}
	wantUsed(t, e, unaryCall, used)

	used = 0
	for body, cost := range map[string]int64{"set 37": 37, "send 5": 5, "trail 7": 7, "context-set 11": 11, "hello": 1} {
		stream := open(t, client)
		exchange(t, stream, body)
		hangUp(t, stream)
		used += cost
		wantUsed(t, e, duplexCall, used)
	}
}

func TestCostFromBytes(t *testing.T) {
	e := newEngine(t, "rules:\n  - {name: bytes, key: [], cost: {response_bytes: true}, limits: [{rate: 1000/1m, algorithm: fixed_window}]}\n", engine.Options{Now: noon})
	client, _ := serve(t, newLimiter(t, e, grpclimit.Options{}))
	stream := open(t, client)
	exchange(t, stream, "12345678")
	exchange(t, stream, "12345678")
	hangUp(t, stream)
	wantUsed(t, e, duplexCall, 24) // 8 bytes, and a tag and a length for each of body and payload
	if _, err := client.UnaryCall(patient(t), say("12345678")); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, e, duplexCall, 36)
}

func wantUsed(t *testing.T, e *engine.Engine, path string, want int64) {
	t.Helper()
	if got := used(t, e, path); got != want {
		t.Errorf("used %d, want %d", got, want)
	}
}

// bubble is the clock of a test with virtual time.
func bubble() penstock.Instant { return penstock.InstantOf(time.Now()) }

// fromPeer returns the context of a request without a network, which has only real time.
func fromPeer(ctx context.Context) context.Context {
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1000}})
	return metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "example.com"))
}

func invoke(ctx context.Context, l *grpclimit.Limiter, handler func()) error {
	_, err := l.Unary()(fromPeer(ctx), nil, &grpc.UnaryServerInfo{FullMethod: unaryCall}, func(context.Context, any) (any, error) {
		handler()
		return nil, nil
	})
	return err
}

// Requests of a leaky bucket are held until they may proceed.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, "rules:\n  - {name: even, key: [], limits: [{rate: 1/1s, queue: 5, algorithm: leaky_bucket}]}\n", engine.Options{Now: bubble})
		l := newLimiter(t, e, grpclimit.Options{})
		begin := time.Now()
		var went time.Duration
		for i := range 3 {
			if err := invoke(t.Context(), l, func() { went = time.Since(begin) }); err != nil {
				t.Fatal(err)
			}
			if want := time.Duration(i) * time.Second; went != want {
				t.Errorf("call %d went on after %v, want %v", i, went, want)
			}
		}

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- invoke(ctx, l, func() { t.Error("a call that went away went on") }) }()
		synctest.Wait()
		cancel()
		wantCode(t, <-ended, codes.Canceled)

		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err := invoke(ctx, l, func() { t.Error("a call went on after its deadline") })
		wantCode(t, err, codes.ResourceExhausted) // at once, as it would not wait for its turn
	})
}

// A request whose client disconnects while it is held releases its permit.
func TestHeldAndGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, `
rules:
  - {name: even, key: [], limits: [{rate: 1/1s, queue: 5, algorithm: leaky_bucket}]}
  - {name: two, key: [], limits: [{concurrent: 2, ttl: 1h}]}
`, engine.Options{Now: bubble})
		l := newLimiter(t, e, grpclimit.Options{OnError: func(_ string, err error) { t.Error(err) }})
		err := invoke(t.Context(), l, func() { // holds one of the permits
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- invoke(ctx, l, func() { t.Error("a call that went away went on") }) }()
				synctest.Wait()
				cancel()
				wantCode(t, <-ended, codes.Canceled)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A permit is kept for as long as the request runs, even if its time to live is shorter.
func TestRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, "rules:\n  - {name: one, key: [], limits: [{concurrent: 1, ttl: 10s}]}\n", engine.Options{Now: bubble})
		l := newLimiter(t, e, grpclimit.Options{OnError: func(_ string, err error) { t.Error(err) }})
		err := invoke(t.Context(), l, func() {
			for range 10 {
				time.Sleep(7 * time.Second)
				wantCode(t, invoke(t.Context(), l, func() { t.Error("two at the same time") }), codes.ResourceExhausted)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := invoke(t.Context(), l, func() {}); err != nil {
			t.Fatalf("the place is not free: %v", err)
		}
	})
}

const slowTokens = "rules:\n  - {name: tokens, key: [], reserve: {ttl: 30s}, limits: [{rate: 10000/1h, algorithm: fixed_window}], cost: {response_header: X-Cost, default: 10, max: 10000}, dedup: {ttl: 10m, replay_budget: 5}}\n"

// transport receives a handler's metadata without a network.
type transport struct{}

func (transport) Method() string               { return unaryCall }
func (transport) SetHeader(metadata.MD) error  { return nil }
func (transport) SendHeader(metadata.MD) error { return nil }
func (transport) SetTrailer(metadata.MD) error { return nil }

// tell sends a request with an ID whose handler reports a cost at its end.
func tell(ctx context.Context, l *grpclimit.Limiter, id, cost string, handler func()) error {
	ctx = grpc.NewContextWithServerTransportStream(fromPeer(ctx), transport{})
	md, _ := metadata.FromIncomingContext(ctx)
	ctx = metadata.NewIncomingContext(ctx, metadata.Join(md, metadata.Pairs("idempotency-key", id)))
	_, err := l.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryCall}, func(ctx context.Context, _ any) (any, error) {
		handler()
		return nil, grpc.SetHeader(ctx, metadata.Pairs("x-cost", cost))
	})
	return err
}

// An answer that takes longer than its reservation is charged its reported cost, and a duplicate that ends
// first does not change that.
func TestReservationIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, slowTokens, engine.Options{Now: bubble})
		l := newLimiter(t, e, grpclimit.Options{OnError: func(_ string, err error) { t.Error(err) }})
		err := tell(t.Context(), l, "a", "5000", func() {
			if err := tell(t.Context(), l, "a", "0", func() {}); err != nil {
				t.Error(err)
			}
			time.Sleep(45 * time.Second)
		})
		if err != nil {
			t.Fatal(err)
		}
		wantUsed(t, e, unaryCall, 5000)
	})
}

// A request that is held keeps its permit, even if the permit's time to live is shorter.
func TestPermitIsKeptWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, `
rules:
  - {name: two, key: [], limits: [{concurrent: 2, ttl: 10s}]}
  - {name: even, key: [], limits: [{rate: 1/20s, queue: 5, algorithm: leaky_bucket}]}
`, engine.Options{Now: bubble})
		l := newLimiter(t, e, grpclimit.Options{OnError: func(_ string, err error) { t.Error(err) }})
		var running, most, denied atomic.Int64
		var ended sync.WaitGroup
		for range 8 {
			ended.Go(func() {
				err := invoke(t.Context(), l, func() {
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(time.Minute)
					running.Add(-1)
				})
				if err != nil {
					wantCode(t, err, codes.ResourceExhausted)
					denied.Add(1)
				}
			})
			time.Sleep(5 * time.Second)
		}
		ended.Wait()
		if most.Load() != 2 || denied.Load() != 6 {
			t.Errorf("%d ran at the same time where 2 may, and %d of 8 were denied", most.Load(), denied.Load())
		}
	})
}

// A duplicate runs under a permit of its own, or not at all.
func TestDuplicatesHoldPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, "rules:\n  - {name: two, key: [], limits: [{concurrent: 2, ttl: 10s}], dedup: {ttl: 10m, max_replays: 9, replay_budget: 9}}\n", engine.Options{Now: bubble})
		l := newLimiter(t, e, grpclimit.Options{OnError: func(_ string, err error) { t.Error(err) }})
		err := tell(t.Context(), l, "a", "1", func() {
			for range 3 { // each releases its own permit, and never the original's
				err := tell(t.Context(), l, "a", "1", func() {
					wantCode(t, tell(t.Context(), l, "a", "1", func() { t.Error("three ran at the same time") }), codes.ResourceExhausted)
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				wantUsed(t, e, unaryCall, 1)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		wantUsed(t, e, unaryCall, 0)
	})
}

// After a panic, a client that got a partial answer is charged for that. One that disconnected before the
// first byte is charged the estimate.
func TestPaidWithoutAnEnd(t *testing.T) {
	e := newEngine(t, "rules:\n  - {name: bytes, key: [], cost: {response_bytes: true, default: 7}, limits: [{rate: 1000/1m, algorithm: fixed_window}]}\n", engine.Options{Now: noon})
	l := newLimiter(t, e, grpclimit.Options{OnError: func(_ string, err error) { t.Error(err) }})
	var used int64
	for name, c := range map[string]struct {
		handler func(grpc.ServerStream, func()) error
		paid    int64
	}{
		"panics at once":             {func(grpc.ServerStream, func()) error { panic("oh") }, 0},
		"panics after a message":     {func(s grpc.ServerStream, _ func()) error { _ = s.SendMsg(say("12345678")); panic("oh") }, 12},
		"panics after a header":      {func(s grpc.ServerStream, _ func()) error { _ = s.SendHeader(nil); panic("oh") }, 0},
		"is left, and panics":        {func(_ grpc.ServerStream, leave func()) error { leave(); panic("oh") }, 7},
		"is left":                    {func(_ grpc.ServerStream, leave func()) error { leave(); return context.Canceled }, 7},
		"is left after a message":    {func(s grpc.ServerStream, leave func()) error { _ = s.SendMsg(say("1")); leave(); return nil }, 5},
		"answers nothing":            {func(grpc.ServerStream, func()) error { return nil }, 0},
		"answers what is no message": {func(s grpc.ServerStream, _ func()) error { return s.SendMsg("text") }, 7},
	} {
		ctx, leave := context.WithCancel(t.Context())
		func() {
			defer func() { _ = recover() }()
			stream := &deafStream{ctx: grpc.NewContextWithServerTransportStream(fromPeer(ctx), transport{})}
			_ = l.Stream()(nil, stream, &grpc.StreamServerInfo{FullMethod: duplexCall}, func(_ any, s grpc.ServerStream) error { return c.handler(s, leave) })
		}()
		leave()
		used += c.paid
		if wantUsed(t, e, duplexCall, used); t.Failed() {
			t.Fatal(name)
		}
	}
}

// deafStream discards what is sent.
type deafStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *deafStream) Context() context.Context     { return s.ctx }
func (s *deafStream) SendHeader(metadata.MD) error { return nil }
func (s *deafStream) SetHeader(metadata.MD) error  { return nil }
func (s *deafStream) SendMsg(any) error            { return nil }

// A client of a real server that disconnects before it is answered is charged the estimate.
func TestClientLeavesBeforeTheAnswer(t *testing.T) {
	e := newEngine(t, "rules:\n  - {name: bytes, key: [], cost: {response_bytes: true, default: 7}, limits: [{rate: 1000/1m, algorithm: fixed_window}]}\n", engine.Options{Now: noon})
	client, service := serve(t, newLimiter(t, e, grpclimit.Options{}))
	for i := range 10 {
		ctx, leave := context.WithCancel(patient(t))
		if _, err := client.FullDuplexCall(ctx); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { return service.reached.Load() == int64(i+1) })
		leave()
	}
	waitFor(t, func() bool { return used(t, e, duplexCall) == 70 })
}

func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	for ctx := patient(t); !holds(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("it does not happen")
		}
	}
}

func used(t *testing.T, e *engine.Engine, path string) int64 {
	t.Helper()
	var v penstock.Verdict
	peek := penstock.Call{Attributes: []penstock.Attribute{{Name: "path", Value: path}}}
	if err := e.Decide(t.Context(), &peek, &v); err != nil {
		t.Fatal(err)
	}
	return v.Limits[0].Used
}

// By default requests are held for as long as the queue takes.
func TestWholeQueueIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, "rules:\n  - {name: even, key: [], limits: [{rate: 4/60s, queue: 6, algorithm: leaky_bucket}]}\n", engine.Options{Now: bubble})
		l := newLimiter(t, e, grpclimit.Options{})
		ended := make(chan error, 8)
		for range 8 {
			go func() { ended <- invoke(t.Context(), l, func() {}) }()
		}
		served := 0
		for range 8 {
			err := <-ended
			if err == nil {
				served++
				continue
			}
			wantCode(t, err, codes.ResourceExhausted)
			violation := status.Convert(err).Details()[1].(*errdetails.QuotaFailure).Violations[0]
			if want := "limit of 4 per 1m0s with a queue of 6 reached"; violation.Description != want {
				t.Errorf("%q, want %q", violation.Description, want)
			}
		}
		if served != 7 {
			t.Errorf("%d of 8 served, want 7", served)
		}
	})
}
