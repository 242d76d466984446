package grpclimit

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
)

// An answer is what a handler has answered so far: the cost of some rules comes with it.
type answer struct {
	mu       sync.Mutex
	metadata metadata.MD // headers and trailers
	bytes    int64       // of the messages, as protobuf encodes them
}

func (a *answer) set(md metadata.MD) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.metadata = metadata.Join(a.metadata, md)
}

func (a *answer) sent(message any) {
	m, ok := message.(proto.Message)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes += int64(proto.Size(m))
}

func (a *answer) response() *penstock.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	md := a.metadata
	return &penstock.Response{
		Bytes: a.bytes,
		Header: func(name string) string {
			if values := md.Get(name); len(values) > 0 {
				return values[0]
			}
			return ""
		},
	}
}

// listen returns a context in which grpc.SetHeader and its like tell the answer.
func (a *answer) listen(ctx context.Context) context.Context {
	transport := grpc.ServerTransportStreamFromContext(ctx)
	if transport == nil {
		return ctx // not of a server: they fail
	}
	return grpc.NewContextWithServerTransportStream(ctx, &transportAnswer{transport, a})
}

type transportAnswer struct {
	grpc.ServerTransportStream
	answer *answer
}

func (t *transportAnswer) SetHeader(md metadata.MD) error {
	t.answer.set(md)
	return t.ServerTransportStream.SetHeader(md)
}

func (t *transportAnswer) SendHeader(md metadata.MD) error {
	t.answer.set(md)
	return t.ServerTransportStream.SendHeader(md)
}

func (t *transportAnswer) SetTrailer(md metadata.MD) error {
	t.answer.set(md)
	return t.ServerTransportStream.SetTrailer(md)
}

// A streamAnswer is a stream that tells the answer.
type streamAnswer struct {
	grpc.ServerStream
	ctx    context.Context
	answer *answer
}

func (s *streamAnswer) Context() context.Context { return s.ctx }

func (s *streamAnswer) SetHeader(md metadata.MD) error {
	s.answer.set(md)
	return s.ServerStream.SetHeader(md)
}

func (s *streamAnswer) SendHeader(md metadata.MD) error {
	s.answer.set(md)
	return s.ServerStream.SendHeader(md)
}

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
