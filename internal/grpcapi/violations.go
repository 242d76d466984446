package grpcapi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/onevalue"
	"github.com/penstock-io/penstock/internal/wire"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
	"github.com/penstock-io/penstock/storage"
)

// fieldViolations are all errors of a request, each with its position.
type fieldViolations struct {
	list []*errdetails.BadRequest_FieldViolation
	more int // not listed
}

func (m *fieldViolations) add(at, format string, args ...any) {
	if len(m.list) == wire.MaxMistakes {
		m.more++
		return
	}
	m.list = append(m.list, &errdetails.BadRequest_FieldViolation{Field: at, Description: fmt.Sprintf(format, args...)})
}

// addErrors adds the errors that a decider found. A joined error has one per line.
func (m *fieldViolations) addErrors(err error) {
	for line := range strings.Lines(err.Error()) {
		m.add("", "%s", strings.TrimSuffix(line, "\n"))
	}
}

// err returns a status with all errors, in its message too, or nil if there are none.
func (m *fieldViolations) err() error {
	if len(m.list) == 0 {
		return nil
	}
	texts := make([]string, len(m.list))
	for i, v := range m.list {
		texts[i] = strings.TrimPrefix(v.Field+": "+v.Description, ": ")
	}
	if m.more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", m.more))
	}
	bare := status.New(codes.InvalidArgument, strings.Join(texts, "; "))
	detailed, err := bare.WithDetails(&errdetails.BadRequest{FieldViolations: m.list})
	if err != nil {
		return bare.Err()
	}
	return detailed.Err()
}

// check refuses requests that are too long, and fields that this version does not know: what they ask for would
// silently not be done.
func (m *fieldViolations) check(r proto.Message, most int) {
	if size := proto.Size(r); size > most {
		m.add("", "the message has %d bytes; at most %d", size, most)
	}
	m.known("", r)
}

func (m *fieldViolations) known(at string, r proto.Message) {
	for unknown := r.ProtoReflect().GetUnknown(); len(unknown) > 0; {
		number, _, n := protowire.ConsumeField(unknown)
		if n < 0 {
			return
		}
		m.add(at, "field %d is unknown", number)
		unknown = unknown[n:]
	}
}

func (m *fieldViolations) batch(r *penstockv1.CheckBatchRequest) []penstock.Call {
	m.check(r, wire.MaxBatchBody)
	if len(r.Calls) == 0 || len(r.Calls) > wire.MaxBatch {
		m.add("calls", "%d calls, must be from 1 to %d", len(r.Calls), wire.MaxBatch)
		return nil
	}
	calls := make([]penstock.Call, len(r.Calls))
	for i, c := range r.Calls {
		m.call("calls["+strconv.Itoa(i)+"]", c, &calls[i])
	}
	return calls
}

// call reads a request.
func (m *fieldViolations) call(at string, r *penstockv1.CheckRequest, c *penstock.Call) {
	if at != "" { // otherwise it is the whole message, which is already checked
		m.known(at, r)
	}
	c.Domain, c.ID, c.Cost = r.Domain, onevalue.Trim(r.Id), 1
	m.length(memberPath(at, "domain"), r.Domain, 0, bounds.Domain)
	m.length(memberPath(at, "id"), r.Id, 0, bounds.CallID)
	if r.Cost != nil {
		c.Cost = m.cost(memberPath(at, "cost"), *r.Cost)
	}
	c.MaxDelay = m.milliseconds(memberPath(at, "max_delay_ms"), r.MaxDelayMs, 0, wire.MaxDelay)
	m.attributes(memberPath(at, "attributes"), r.Attributes, c)
	if err := wire.NormalHost(c); err != nil {
		m.add(memberPath(at, `attributes["host"]`), "%v", err)
	}
}

// attributes reads the attributes in the order of their names, so that the same errors are always reported alike.
func (m *fieldViolations) attributes(at string, attributes map[string]string, c *penstock.Call) {
	if len(attributes) > bounds.Attributes {
		m.add(at, "%d attributes; at most %d", len(attributes), bounds.Attributes)
		return
	}
	c.Attributes = make([]penstock.Attribute, 0, len(attributes))
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		if len(name) == 0 || len(name) > bounds.AttributeName {
			m.add(at, "the name %.32q has %d bytes, must have from 1 to %d", name, len(name), bounds.AttributeName)
			continue
		}
		m.length(fmt.Sprintf("%s[%q]", at, name), value, 0, bounds.AttributeValue)
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: name, Value: onevalue.Trim(value)})
	}
}

func (m *fieldViolations) response(at string, r *penstockv1.Response) *penstock.Response {
	m.known(at, r)
	if r.Bytes < penstock.UnknownBytes {
		m.add(memberPath(at, "bytes"), "%d must be at least 0, or %d if unknown", r.Bytes, penstock.UnknownBytes)
	}
	if r.Status != 0 && (r.Status < 100 || r.Status > 599) {
		m.add(memberPath(at, "status"), "%d is not from 100 to 599, or 0 if unknown", r.Status)
	}
	return &penstock.Response{
		Status: int(r.Status), Duration: m.milliseconds(memberPath(at, "duration_ms"), r.DurationMs, 0, storage.MaxReserve),
		Bytes:  r.Bytes,
		Header: func(name string) string { return r.Headers[strings.ToLower(name)] },
	}
}

func (m *fieldViolations) cost(at string, cost int64) int64 {
	if cost < 0 || cost > algorithm.MaxCount {
		m.add(at, "%d is not from 0 to %d", cost, int64(algorithm.MaxCount))
	}
	return cost
}

func (m *fieldViolations) ttl(at string, ms int64) time.Duration {
	if ms == 0 {
		return 0
	}
	return m.milliseconds(at, ms, algorithm.MinWindow, storage.MaxReserve)
}

func (m *fieldViolations) milliseconds(at string, ms int64, least, most time.Duration) time.Duration {
	if ms < least.Milliseconds() || ms > most.Milliseconds() {
		m.add(at, "%d is not from %d to %d", ms, least.Milliseconds(), most.Milliseconds())
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

func (m *fieldViolations) length(at, text string, least, most int) {
	if len(text) < least || len(text) > most {
		m.add(at, "has %d bytes, must have from %d to %d", len(text), least, most)
	}
}

func memberPath(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
