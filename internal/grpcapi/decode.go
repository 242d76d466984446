package grpcapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
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
	taken sync.Map // message → int64, its share of room
}

func newDecoder() *decoder {
	return &decoder{CodecV2: encoding.GetCodecV2(proto.Name), room: semaphore.NewWeighted(maxDecoded)}
}

// Unmarshal waits until there is room for the message. The message must be released after the response.
func (d *decoder) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(protobuf.Message)
	if !ok {
		return d.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	b := whole.ReadOnlyData()
	if err := d.reserve(b, m); err != nil {
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

// reserve waits until there is room for a message that is not small.
func (d *decoder) reserve(b []byte, m protobuf.Message) error {
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
	d.taken.Store(m, size)
	return nil
}

// release gives back the room of a message.
func (d *decoder) release(v any) {
	if size, ok := d.taken.LoadAndDelete(v); ok {
		d.room.Release(size.(int64))
	}
}

// unary releases the request after the response.
func (d *decoder) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	defer d.release(request)
	return handler(ctx, request)
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
