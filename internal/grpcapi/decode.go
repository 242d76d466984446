package grpcapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// maxDecoded bounds the memory of decoded messages that are not yet answered. Further messages wait. Messages up
	// to smallDecoded are not counted: connlimit already bounds their number through their streams.
	maxDecoded   = 64 << 20
	smallDecoded = 32 << 10

	fieldCost = 128 // bytes of memory for a field, in addition to its encoding
	maxFields = 100_000
	maxDepth  = 100
)

// A decoder is a codec that bounds the memory of decoded messages. Without it, 1 MiB of empty descriptors becomes 70
// MiB, in every stream at once.
type decoder struct {
	encoding.CodecV2
	room  *semaphore.Weighted
	taken sync.Map     // request → int64, its share of room
	large atomic.Int64 // requests in taken
}

func newDecoder() *decoder {
	return &decoder{CodecV2: encoding.GetCodecV2(proto.Name), room: semaphore.NewWeighted(maxDecoded)}
}

// A PlainMessage is a request that decodes itself if it is of the usual form.
type PlainMessage interface {
	// UnmarshalPlain decodes a message into at most 32 KiB, and reports whether it could. It does not keep the bytes.
	UnmarshalPlain(b []byte) bool

	// Generated returns the message to decode into if it could not.
	Generated() protobuf.Message
}

// Unmarshal waits until there is room for the message. The message must be released after the response.
func (d *decoder) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	b := whole.ReadOnlyData()
	m, ok := v.(protobuf.Message)
	if plain, isPlain := v.(PlainMessage); isPlain {
		if plain.UnmarshalPlain(b) {
			return nil
		}
		m, ok = plain.Generated(), true
	}
	if !ok {
		return d.CodecV2.Unmarshal(data, v)
	}
	if err := d.reserve(b, m, v); err != nil {
		return err
	}
	err := protobuf.Unmarshal(b, m)
	if err != nil {
		err = unmarshalReplacing(b, m, err)
	}
	if err != nil {
		d.release(v)
	}
	return err
}

// Marshal encodes a response, unless its service has done so.
func (d *decoder) Marshal(v any) (mem.BufferSlice, error) {
	if encoded, ok := v.(mem.BufferSlice); ok {
		return encoded, nil
	}
	return d.CodecV2.Marshal(v)
}

// reserve waits until there is room for a message that is not small. It belongs to the request v.
func (d *decoder) reserve(b []byte, m protobuf.Message, v any) error {
	if len(b) <= smallDecoded/fieldCost {
		return nil
	}
	fields, err := countFields(b, m.ProtoReflect().Descriptor(), maxFields, maxDepth)
	if err != nil {
		return err
	}
	size := int64(fields)*fieldCost + 2*int64(len(b)) // the received message, and the strings in it
	if size <= smallDecoded {
		return nil
	}
	if err := d.room.Acquire(context.Background(), size); err != nil { // other messages end by their deadlines
		return err
	}
	d.taken.Store(v, size)
	d.large.Add(1)
	return nil
}

// release gives back the room of a message.
func (d *decoder) release(v any) {
	if d.large.Load() == 0 {
		return // usually, and cheaper to find out
	}
	if size, ok := d.taken.LoadAndDelete(v); ok {
		d.large.Add(-1)
		d.room.Release(size.(int64))
	}
}

// unary releases the request after the response. It also turns a panic into the failure of one request: grpc would let
// it end the process. Both are one interceptor, because chaining them takes memory for each request.
func (d *decoder) unary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			d.release(request)
			if p := recover(); p != nil {
				log.ErrorContext(ctx, "gRPC call panicked", "method", info.FullMethod, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				err = status.Error(codes.Internal, "internal error; see the server log")
			}
		}()
		return handler(ctx, request)
	}
}

// stream releases each request as soon as it is received: streaming methods keep little of it.
func (d *decoder) stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(srv, releasingStream{s, d})
}

type releasingStream struct {
	grpc.ServerStream
	decoder *decoder
}

func (s releasingStream) RecvMsg(m any) error {
	defer s.decoder.release(m)
	return s.ServerStream.RecvMsg(m)
}

// countFields counts the fields of a message and of all messages in it. It stops where the message is malformed,
// which Unmarshal then reports.
func countFields(b []byte, of protoreflect.MessageDescriptor, most, depth int) (int, error) {
	if depth == 0 {
		return 0, fmt.Errorf("messages within messages are more than %d deep", maxDepth)
	}
	count := 0
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return count, nil
		}
		b = b[n:]
		if count++; count > most {
			return 0, fmt.Errorf("the message has more than %d fields", maxFields)
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return count, nil
		}
		value := b[:n]
		b = b[n:]
		if kind != protowire.BytesType || n == 1 { // an empty value is only its length
			continue
		}
		field := of.Fields().ByNumber(number)
		if field == nil || field.Message() == nil {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		within, err := countFields(value, field.Message(), most-count, depth-1)
		if err != nil {
			return 0, err
		}
		count += within
	}
	return count, nil
}

// unmarshalReplacing decodes a message again that failed with err. It replaces every invalid UTF-8 byte in strings by
// an exclamation mark. Envoy copies such bytes from headers, and lets a request pass if its decision fails. If there
// are no such bytes, unmarshalReplacing returns err.
func unmarshalReplacing(b []byte, m protobuf.Message, err error) error {
	b = bytes.Clone(b)
	if !replaceInvalid(b, m.ProtoReflect().Descriptor(), maxDepth) {
		return err
	}
	return protobuf.Unmarshal(b, m)
}

// replaceInvalid replaces the bytes in b, and reports whether there were any.
func replaceInvalid(b []byte, of protoreflect.MessageDescriptor, depth int) (replaced bool) {
	for len(b) > 0 && depth > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return replaced
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return replaced
		}
		field := of.Fields().ByNumber(number)
		value, _ := protowire.ConsumeBytes(b[:n])
		b = b[n:]
		switch {
		case kind != protowire.BytesType || field == nil:
		case field.Message() != nil:
			replaced = replaceInvalid(value, field.Message(), depth-1) || replaced
		case field.Kind() == protoreflect.StringKind:
			for i := 0; i < len(value); {
				r, size := utf8.DecodeRune(value[i:])
				if r == utf8.RuneError && size == 1 {
					value[i], replaced = '!', true
				}
				i += size
			}
		}
	}
	return replaced
}

// identityOnly refuses compressed messages: they can grow a thousandfold in memory.
type identityOnly struct{}

func (identityOnly) Do(io.Reader) ([]byte, error) {
	return nil, errors.New("compressed messages are not accepted; send them without grpc-encoding")
}

func (identityOnly) Type() string { return "gzip" }
