package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
)

// Requests of one rule cannot fill the queue: those of another are held and served. Requests beyond the bound
// are refused and counted.
func TestOneRuleDoesNotFillTheQueue(t *testing.T) {
	e := newEngine(t, `
attributes: {who: {header: X-Who}}
rules:
  - {name: flooded, match: {attributes: {who: flood}}, key: [], limits: [{rate: 1/h, queue: 1000, algorithm: leaky_bucket}]}
  - {name: other, match: {attributes: {who: other}}, key: [], limits: [{rate: 20/s, queue: 10, algorithm: leaky_bucket}]}
`, engine.Options{})
	for name, o := range map[string]grpclimit.Options{
		"requests":         {MaxHeld: 20},
		"bytes":            {MaxHeldBytes: 20 * (16<<10 + 100)},
		"bytes of streams": {MaxHeldBytes: 20 * (80 << 10)},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, e, o)
			client, _ := serve(t, l)
			flooding, stop := context.WithCancel(t.Context()) // without a deadline, within which no request would depart
			defer stop()
			const flood = 50
			codesOf := make(chan codes.Code, flood+1)
			var all sync.WaitGroup
			call := func() {
				ctx := metadata.AppendToOutgoingContext(flooding, "x-who", "flood")
				if name == "bytes of streams" {
					codesOf <- streamCode(ctx, client)
					return
				}
				_, err := client.UnaryCall(ctx, say("hello"))
				codesOf <- status.Code(err)
			}
			for range flood {
				all.Go(call)
			}
			eventually(t, "all are held or refused", func() bool { // except the first, which passes
				held := l.Held()
				return held.Requests+int(held.Refused["flooded"]) >= flood-1
			})
			if held := l.Held(); held.Requests != 10 {
				t.Errorf("held %+v, want half of 20", held)
			}
			for range 3 {
				_, err := client.UnaryCall(metadata.AppendToOutgoingContext(patient(t), "x-who", "other"), say("hello"))
				wantCode(t, err, codes.OK)
			}
			refused := l.Held().Refused
			if refused["flooded"] == 0 || len(refused) != 1 {
				t.Errorf("refused %v", refused)
			}
			stop()
			all.Wait()
			close(codesOf)
			got := map[codes.Code]int{}
			for code := range codesOf {
				got[code]++
			}
			if got[codes.Unavailable] != int(refused["flooded"]) || got[codes.OK] > 1 {
				t.Errorf("codes %v, refused %v", got, refused)
			}
			eventually(t, "all places are given back", func() bool {
				held := l.Held()
				return held.Requests == 0 && held.Bytes == 0 && maps.Equal(held.Refused, refused)
			})
		})
	}
}

func eventually(t *testing.T, what string, isDone func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isDone(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// streamCode opens a stream and returns the code it ends with.
func streamCode(ctx context.Context, client testpb.TestServiceClient) codes.Code {
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return status.Code(err)
	}
	stream.CloseSend()
	for {
		if _, err := stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return codes.OK
			}
			return status.Code(err)
		}
	}
}
