package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// heldCalls are in flight at a node: one that its upstream holds, one whose request is half sent, and one of
// which only the headers are sent.
type heldCalls struct {
	t        *testing.T
	up       *upstream
	user     string
	gateway  chan error
	question *io.PipeWriter
	http     chan error
	conn     *grpc.ClientConn
	stream   grpc.ClientStream
}

func holdCalls(t *testing.T, n *node, up *upstream, user string) *heldCalls {
	t.Helper()
	h := &heldCalls{t: t, up: up, user: user, gateway: make(chan error, 1), http: make(chan error, 1)}
	go func() {
		a, err := trySend(http.MethodGet, n.url("gateway", "/held"), "", "X-User: "+user)
		if err == nil && string(a.body) != "served\n" {
			err = fmt.Errorf("got %s: %s", a.Status, a.body)
		}
		h.gateway <- err
	}()
	up.await(t)
	h.holdStream(n)
	h.holdQuestion(n)
	return h
}

// holdStream starts a request over gRPC. When the next one on its connection is answered, it has arrived.
func (h *heldCalls) holdStream(n *node) {
	h.t.Helper()
	var err error
	if h.conn, err = grpc.NewClient(n.addresses["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.conn.Close() })
	h.stream, err = h.conn.NewStream(h.t.Context(), &grpc.StreamDesc{ClientStreams: true}, penstockv1.Decisions_Check_FullMethodName)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := penstockv1.NewDecisionsClient(h.conn).Check(h.t.Context(), h.check(0)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *heldCalls) check(cost int64) *penstockv1.CheckRequest {
	return &penstockv1.CheckRequest{Attributes: map[string]string{"user": h.user, "path": "/x"}, Cost: &cost}
}

// holdQuestion sends half of a question, which is when the node has asked for it.
func (h *heldCalls) holdQuestion(n *node) {
	h.t.Helper()
	body, question := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, n.url("http", "/v1/check"), body)
	if err != nil {
		h.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	asker := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: patient}, Timeout: patient}
	h.t.Cleanup(asker.CloseIdleConnections)
	go func() {
		a, err := read(asker.Do(request))
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("got %s: %s", a.Status, a.body)
		}
		h.http <- err
	}()
	h.question = question
	if _, err := io.WriteString(question, callOf(h.user)[:10]); err != nil {
		h.t.Fatal(err)
	}
}

// isHealthy asks for the node's health over gRPC.
func (h *heldCalls) isHealthy() (bool, error) {
	reply, err := grpc_health_v1.NewHealthClient(h.conn).Check(h.t.Context(), &grpc_health_v1.HealthCheckRequest{})
	return reply.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING, err
}

// finish lets the requests continue. All of them must be answered.
func (h *heldCalls) finish() (answered int) {
	h.t.Helper()
	h.up.free(h.t)
	_, asked := io.WriteString(h.question, callOf(h.user)[10:])
	h.question.Close()
	sent := errors.Join(h.stream.SendMsg(h.check(1)), h.stream.CloseSend())
	var v penstockv1.Verdict
	for door, err := range map[string]error{
		"gateway": <-h.gateway,
		"http":    errors.Join(asked, <-h.http),
		"grpc":    errors.Join(sent, h.stream.RecvMsg(&v)),
	} {
		if err != nil {
			h.t.Errorf("%s, under way as the node was told to end: %v", door, err)
			continue
		}
		answered++
	}
	return answered
}
