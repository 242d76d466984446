package grpclimit

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/grpcstatus"
)

// An handlerResponse is what a handler has sent so far: some rules take their cost from it.
type handlerResponse struct {
	mu       sync.Mutex
	metadata metadata.MD // headers and trailers
	bytes    int64       // of the messages, as protobuf encodes them
	begun    bool        // the header or a message was sent
	unknown  bool        // a message is not protobuf, so its size is unknown
}

func (a *handlerResponse) set(md metadata.MD) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.metadata = metadata.Join(a.metadata, md)
}

func (a *handlerResponse) sent(message any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = true
	if m, ok := message.(proto.Message); ok {
		a.bytes += int64(proto.Size(m))
	} else {
		a.unknown = true
	}
}

// sentHeader notes that the answer has begun, and its metadata.
func (a *handlerResponse) sentHeader(md metadata.MD) {
	a.set(md)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = true
}

func (a *handlerResponse) hasBegun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

// response returns what rules decide by. The size is unknown if the client disconnected before the first byte, and so
// is the status if the handler did not return one of its own.
func (a *handlerResponse) response(isGone bool, ended *status.Status, took time.Duration) *penstock.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	md, bytes := a.metadata, a.bytes
	if a.unknown || isGone && bytes == 0 {
		bytes = penstock.UnknownBytes
	}
	code := 0
	if ended != nil && !(isGone && (ended.Code() == codes.Canceled || ended.Code() == codes.DeadlineExceeded)) {
		code = grpcstatus.HTTP(int(ended.Code()))
	}
	return &penstock.Response{
		Status: code, Duration: took, Bytes: bytes,
		Header: func(name string) string {
			if strings.EqualFold(name, "grpc-status") && ended != nil {
				return strconv.Itoa(int(ended.Code()))
			}
			if values := md.Get(name); len(values) > 0 {
				return values[0]
			}
			return ""
		},
	}
}

// listen returns a context in which grpc.SetHeader and similar functions update the answer.
func (a *handlerResponse) listen(ctx context.Context) context.Context {
	transport := grpc.ServerTransportStreamFromContext(ctx)
	if transport == nil {
		return ctx // not a server's context: those functions fail
	}
	return grpc.NewContextWithServerTransportStream(ctx, &transportAnswer{answerHeaders{transport, a}, transportStream{transport}})
}

// answerHeaders updates the answer with the headers of a handler.
type answerHeaders struct {
	stream interface {
		SetHeader(metadata.MD) error
		SendHeader(metadata.MD) error
	}
	answer *handlerResponse
}

func (h answerHeaders) SetHeader(md metadata.MD) error {
	h.answer.set(md)
	return h.stream.SetHeader(md)
}

func (h answerHeaders) SendHeader(md metadata.MD) error {
	h.answer.sentHeader(md)
	return h.stream.SendHeader(md)
}

// The streams are embedded one level deeper than answerHeaders, whose methods therefore go first.
type (
	transportStream struct{ grpc.ServerTransportStream }
	serverStream    struct{ grpc.ServerStream }
)

type transportAnswer struct {
	answerHeaders
	transportStream
}

func (t *transportAnswer) SetTrailer(md metadata.MD) error {
	t.answer.set(md)
	return t.ServerTransportStream.SetTrailer(md)
}

// A streamAnswer is a stream that updates the answer.
type streamAnswer struct {
	answerHeaders
	serverStream
	ctx context.Context
}

func (s *streamAnswer) Context() context.Context { return s.ctx }

func (s *streamAnswer) SetTrailer(md metadata.MD) {
	s.answer.set(md)
	s.ServerStream.SetTrailer(md)
}

func (s *streamAnswer) SendMsg(message any) error {
	err := s.ServerStream.SendMsg(message)
	if err == nil {
		s.answer.sent(message)
	}
	return err
}
