package rls

import (
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-io/penstock/internal/problem"
)

// An encoder encodes a RateLimitResponse. Building the message first and then encoding it would take several times as
// long, and a part of every request.
type encoder struct {
	reply // collects what the client is told, if WriteWhole is not called
	b     []byte
	whole bool // WriteWhole was called
}

var (
	_ http.ResponseWriter = (*encoder)(nil)
	_ problem.WholeWriter = (*encoder)(nil)
)

// The fields of a RateLimitResponse, and of the messages in it.
const (
	overallCode, statuses, responseHeaders, rawBody, dynamicMetadata = 1, 2, 3, 5, 6

	statusCode, statusLimit, statusRemaining, statusReset = 1, 2, 3, 4
	limitCount, limitUnit, limitName                      = 1, 2, 3
	durationSeconds                                       = 1
	headerKey, headerValue                                = 1, 2
	structFields                                          = 1
	mapKey, mapValue                                      = 1, 2
	valueString, valueStruct                              = 3, 5
)

// WriteWhole encodes a denial.
func (e *encoder) WriteWhole(_ int, fields []problem.Field, body []byte, _ time.Duration) bool {
	for i := range fields {
		if f := &fields[i]; f.Name != contentLength {
			at := e.begin(responseHeaders)
			e.addString(headerKey, f.Name)
			e.addBytes(headerValue, f.Value)
			e.end(at)
		}
	}
	e.addBytes(rawBody, body)
	e.whole = true
	return true
}

// addReply encodes the reply.
func (e *encoder) addReply() {
	for name, value := range e.lines {
		e.addHeader(name, value)
	}
	e.addBytes(rawBody, e.body.Bytes())
}

func (e *encoder) addHeader(name, value string) {
	at := e.begin(responseHeaders)
	e.addString(headerKey, name)
	e.addString(headerValue, value)
	e.end(at)
}

// addStatus encodes the status of a descriptor.
func (e *encoder) addStatus(s *descriptorStatus) {
	at := e.begin(statuses)
	e.addNumber(statusCode, uint64(s.code))
	if s.limited {
		limit := e.begin(statusLimit)
		e.addNumber(limitCount, uint64(s.limit))
		e.addNumber(limitUnit, uint64(s.unit))
		e.addString(limitName, s.name)
		e.end(limit)
	}
	e.addNumber(statusRemaining, uint64(s.remaining))
	if s.resets {
		reset := e.begin(statusReset)
		e.addNumber(durationSeconds, uint64(s.reset))
		e.end(reset)
	}
	e.end(at)
}

// addDenial encodes the metadata of a denial as structpb would: {penstock: {reason, rule}}.
func (e *encoder) addDenial(rule, reason string) {
	all := e.begin(dynamicMetadata)
	entry := e.begin(structFields)
	e.addString(mapKey, ownMetadata)
	value := e.begin(mapValue)
	within := e.begin(valueStruct)
	for _, field := range [...]struct{ name, value string }{{"reason", reason}, {"rule", rule}} {
		own := e.begin(structFields)
		e.addString(mapKey, field.name)
		text := e.begin(mapValue)
		e.b = protowire.AppendString(protowire.AppendTag(e.b, valueString, protowire.BytesType), field.value) // even if it is empty
		e.end(text)
		e.end(own)
	}
	e.end(within)
	e.end(value)
	e.end(entry)
	e.end(all)
}

// addMetadata encodes any metadata, which is left out if it cannot be encoded: the answer must not fail because of it.
func (e *encoder) addMetadata(m *structpb.Struct) {
	at := e.begin(dynamicMetadata)
	b, err := proto.MarshalOptions{}.MarshalAppend(e.b, m)
	if err != nil {
		e.b = e.b[:at-2]
		return
	}
	e.b = b
	e.end(at)
}

// begin begins a message in the message, whose length end writes in front of it. The field is below 16.
func (e *encoder) begin(field protowire.Number) (at int) {
	e.b = append(e.b, byte(field)<<3|byte(protowire.BytesType), 0)
	return len(e.b)
}

// end ends the message that began at a position. It makes room if the length takes more than the one byte.
func (e *encoder) end(at int) {
	n := len(e.b) - at
	var room [maxVarint]byte
	length := protowire.AppendVarint(room[:0], uint64(n))
	if more := len(length) - 1; more > 0 {
		e.b = append(e.b, room[:more]...)
		copy(e.b[at+more:], e.b[at:at+n])
	}
	copy(e.b[at-1:], length)
}

// addNumber encodes a field that is left out if it is 0.
func (e *encoder) addNumber(field protowire.Number, n uint64) {
	if n != 0 {
		e.b = protowire.AppendVarint(append(e.b, byte(field)<<3|byte(protowire.VarintType)), n)
	}
}

// addString encodes a field that is left out if it is empty.
func (e *encoder) addString(field protowire.Number, text string) {
	if text != "" {
		e.b = protowire.AppendString(append(e.b, byte(field)<<3|byte(protowire.BytesType)), text)
	}
}

// addBytes is addString for bytes.
func (e *encoder) addBytes(field protowire.Number, value []byte) {
	if len(value) > 0 {
		e.b = protowire.AppendBytes(append(e.b, byte(field)<<3|byte(protowire.BytesType)), value)
	}
}

// reset makes the encoder empty. It keeps the memory, unless that is large.
func (e *encoder) reset() {
	const kept = 16 << 10
	if cap(e.b) > kept || e.body.Cap() > kept {
		*e = encoder{}
		return
	}
	clear(e.header)
	e.body.Reset()
	e.b, e.whole = e.b[:0], false
}
