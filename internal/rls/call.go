package rls

import (
	"sync"
	"unicode/utf8"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
)

// Bounds of a plain request, which bound the memory of a call.
const (
	maxPlain       = 4 << 10 // bytes
	plainEntries   = 32      // of all descriptors together
	plainPositions = 8       // descriptors
)

// A call is one request to the rate limit service, and the memory to answer it. Nearly all requests are plain: they
// consist of a domain, of descriptors with keys and values, and of hits. A call decodes these by itself, because the
// decoder of protobuf takes more time and memory than the decision. It leaves all others to that decoder.
//
// A call is what the codec of package grpcapi calls a PlainMessage.
type call struct {
	request Request                 // if it is plain
	message *rlsv3.RateLimitRequest // otherwise; nil: it is plain

	descriptors [plainPositions]Descriptor
	entries     [plainEntries]penstock.Attribute
	used        int // entries

	response encoder
}

var calls = sync.Pool{New: func() any { return new(call) }}

// free gives the memory back.
func (c *call) free() {
	c.empty()
	calls.Put(c)
}

// empty removes the request, so that the memory keeps nothing of it alive.
func (c *call) empty() {
	clear(c.request.Descriptors)
	clear(c.entries[:min(c.used+1, plainEntries)]) // one more may have been begun
	c.request.Domain, c.request.Descriptors, c.used, c.message = "", nil, 0, nil
}

// domain returns the domain of the request.
func (c *call) domain() string {
	if c.message != nil {
		return c.message.Domain
	}
	return c.request.Domain
}

// Generated returns the message for requests that are not plain.
func (c *call) Generated() proto.Message {
	if c.message == nil {
		c.message = new(rlsv3.RateLimitRequest)
	}
	return c.message
}

// UnmarshalPlain decodes a plain and valid request, and reports whether it is one.
func (c *call) UnmarshalPlain(b []byte) bool {
	if c.message != nil || len(b) > maxPlain {
		return false
	}
	c.request.Descriptors = c.descriptors[:0]
	hits := uint64(0)
	for text := string(b); text != ""; {
		tag, value := text[0], ""
		var ok bool
		switch text = text[1:]; tag {
		case domainTag:
			c.request.Domain, text, ok = cutString(text)
		case descriptorsTag:
			if value, text, ok = cutBytes(text); ok {
				ok = c.addDescriptor(value)
			}
		case hitsTag:
			hits, text, ok = cutVarint(text)
		}
		if !ok {
			return false
		}
	}
	for i := range c.request.Descriptors {
		c.request.Descriptors[i].Cost = int64(max(uint32(hits), 1))
	}
	n := len(c.request.Domain)
	return n > 0 && n <= MaxDomain && len(c.request.Descriptors) > 0
}

// addDescriptor decodes a descriptor.
func (c *call) addDescriptor(text string) bool {
	n, from := len(c.request.Descriptors), c.used
	if n == plainPositions {
		return false
	}
	for text != "" {
		tag, entry := text[0], ""
		var ok bool
		if entry, text, ok = cutBytes(text[1:]); !ok || tag != entriesTag || c.used == plainEntries || !readEntry(entry, &c.entries[c.used]) {
			return false
		}
		c.used++
	}
	c.request.Descriptors = c.descriptors[:n+1]
	c.request.Descriptors[n] = Descriptor{Entries: c.entries[from:c.used:c.used]}
	return true
}

func readEntry(text string, e *penstock.Attribute) bool {
	for text != "" {
		tag := text[0]
		var ok bool
		switch text = text[1:]; tag {
		case keyTag:
			e.Name, text, ok = cutString(text)
		case valueTag:
			e.Value, text, ok = cutString(text)
		}
		if !ok {
			return false
		}
	}
	return len(e.Name) <= MaxKey
}

// cutVarint reads a number.
func cutVarint(text string) (_ uint64, rest string, ok bool) {
	if text != "" && text[0] < 0x80 {
		return uint64(text[0]), text[1:], true
	}
	n, length := protowire.ConsumeVarint([]byte(text[:min(len(text), maxVarint)]))
	if length < 0 {
		return 0, "", false
	}
	return n, text[length:], true
}

// cutBytes reads bytes with their length in front.
func cutBytes(text string) (value, rest string, ok bool) {
	n, text, ok := cutVarint(text)
	if !ok || n > uint64(len(text)) {
		return "", "", false
	}
	return text[:n], text[n:], true
}

// cutString is cutBytes for text, which must be UTF-8.
func cutString(text string) (value, rest string, ok bool) {
	value, rest, ok = cutBytes(text)
	return value, rest, ok && utf8.ValidString(value)
}

// The fields of a request, each with the kind of its value, as one byte.
const (
	domainTag      = 1<<3 | byte(protowire.BytesType)
	descriptorsTag = 2<<3 | byte(protowire.BytesType)
	hitsTag        = 3<<3 | byte(protowire.VarintType)

	entriesTag = 1<<3 | byte(protowire.BytesType) // of a descriptor

	keyTag   = 1<<3 | byte(protowire.BytesType) // of an entry
	valueTag = 2<<3 | byte(protowire.BytesType)

	maxVarint = 10 // bytes
)
