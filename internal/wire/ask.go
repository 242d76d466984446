package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/onevalue"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/storage"
)

// Bounds of requests to the API. Package bounds has those of a single request.
const (
	MaxBody      = 64 << 10
	MaxBatchBody = 1 << 20
	MaxBatch     = 1000      // requests
	MaxDelay     = time.Hour // of max_delay_ms
)

// ParseCheck parses the body of /v1/check into c, and reuses c's memory. Cost is 1 by default.
func ParseCheck(body []byte, c *penstock.Call) error {
	return parseOne(body, func(p *parser, v value) { p.call(v, "", c, false) })
}

// ParseReserve parses the body of /v1/reserve: that of a check, which may also have ttl_ms.
func ParseReserve(body []byte, c *penstock.Call) error {
	return parseOne(body, func(p *parser, v value) { p.call(v, "", c, true) })
}

// ParseBatch parses the body of /v1/check/batch. After an error, none of its requests can be used.
func ParseBatch(body []byte) (calls []penstock.Call, err error) {
	err = parseOne(body, func(p *parser, v value) {
		p.object(v, "", []field{{name: "calls", required: true, read: func(v value, at string) {
			calls = p.calls(v, at)
		}}})
	})
	return calls, err
}

// ParseSettle parses the actual cost in the body of a settlement.
func ParseSettle(body []byte) (cost int64, err error) {
	err = parseOne(body, func(p *parser, v value) {
		p.object(v, "", []field{{name: "cost", required: true, read: func(v value, at string) {
			cost = p.integer(v, at, 0, algorithm.MaxCount)
		}}})
	})
	return cost, err
}

// ParseRenew parses the body of a renewal: how long a reservation stays open; 0: according to the rules.
func ParseRenew(body []byte) (ttl time.Duration, err error) {
	err = parseOne(body, func(p *parser, v value) {
		p.object(v, "", []field{{name: "ttl_ms", read: func(v value, at string) {
			ttl = p.milliseconds(v, at, algorithm.MinWindow, storage.MaxReserve)
		}}})
	})
	return ttl, err
}

func parseOne(body []byte, read func(*parser, value)) error {
	var p parser
	v, err := parse(body)
	if err != nil {
		p.Add("", "%v", err)
	} else {
		read(&p, v)
	}
	return p.Err()
}

// A parser collects errors while it reads.
type parser struct{ FieldErrors }

// A field is a field that an object may have.
type field struct {
	name     string
	required bool
	read     func(v value, at string)
}

func (p *parser) object(v value, at string, fields []field) {
	if v[0] != '{' {
		p.Add(at, "must be an object, is %s", v.kind())
		return
	}
	var seen uint // a bit for each field
	for rawName, member := range v.members() {
		if p.More {
			return
		}
		name, _ := rawName.text()
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case i < 0:
			p.Add(memberPath(at, name), "unknown field; there are %s", names(fields))
		case seen&(1<<i) != 0:
			p.Add(memberPath(at, name), "is given twice")
		default:
			seen |= 1 << i
			fields[i].read(member, memberPath(at, name))
		}
	}
	for i := range fields {
		if fields[i].required && seen&(1<<i) == 0 {
			p.Add(memberPath(at, fields[i].name), "is missing")
		}
	}
}

func (p *parser) calls(v value, at string) (calls []penstock.Call) {
	if v[0] != '[' {
		p.Add(at, "must be an array of calls, is %s", v.kind())
		return nil
	}
	for i, element := range v.elements() {
		if p.More {
			return nil
		}
		if i == MaxBatch {
			p.Add(at, "at most %d calls; split the batch", MaxBatch)
			return nil
		}
		calls = append(calls, penstock.Call{})
		p.call(element, at+"["+strconv.Itoa(i)+"]", &calls[i], false)
	}
	if len(calls) == 0 {
		p.Add(at, "must have at least one call")
	}
	return calls
}

func (p *parser) call(v value, at string, c *penstock.Call, reserve bool) {
	*c = penstock.Call{Attributes: c.Attributes[:0], Cost: 1, Reserve: reserve}
	fields := []field{
		{name: "domain", read: func(v value, at string) { c.Domain = p.text(v, at, 0, bounds.Domain) }},
		{name: "attributes", required: true, read: func(v value, at string) { p.attributes(v, at, c) }},
		{name: "cost", read: func(v value, at string) { c.Cost = p.integer(v, at, 0, algorithm.MaxCount) }},
		{name: "id", read: func(v value, at string) { c.ID = onevalue.Trim(p.text(v, at, 0, bounds.CallID)) }},
		{name: "max_delay_ms", read: func(v value, at string) { c.MaxDelay = p.milliseconds(v, at, 0, MaxDelay) }},
	}
	if reserve {
		fields = append(fields, field{name: "ttl_ms", read: func(v value, at string) {
			c.TTL = p.milliseconds(v, at, algorithm.MinWindow, storage.MaxReserve)
		}})
	}
	p.object(v, at, fields)
	if err := NormalHost(c); err != nil {
		p.Add(memberPath(memberPath(at, "attributes"), "host"), "%v", err)
	}
}

// NormalHost gives the attribute host of a call the form that it has at the gateway, so that one host is one client in
// whatever spelling a program passes it on. It may have that form already, and be empty if the request has none. In
// domains other than the default one, rules may compare it with other spellings: it stays as it is.
func NormalHost(c *penstock.Call) error {
	if c.Domain != "" && c.Domain != penstock.DefaultDomain {
		return nil
	}
	for i := range c.Attributes {
		a := &c.Attributes[i]
		if a.Name != "host" || a.Value == "" {
			continue
		}
		header := a.Value
		if header[0] != '[' && strings.Count(header, ":") > 1 { // IPv6, without the brackets
			header = "[" + header + "]"
		}
		host, err := urlform.Host(header)
		if err != nil {
			return fmt.Errorf("%.100q is not a host: must be a name or an address, with or without a port", a.Value)
		}
		a.Value = host
	}
	return nil
}

func (p *parser) attributes(v value, at string, c *penstock.Call) {
	if v[0] != '{' {
		p.Add(at, "must be an object of strings, is %s", v.kind())
		return
	}
	for rawName, member := range v.members() {
		if p.More {
			return
		}
		if len(c.Attributes) == bounds.Attributes {
			p.Add(at, "at most %d attributes", bounds.Attributes)
			return
		}
		name := p.text(rawName, at, 1, bounds.AttributeName)
		if _, twice := c.Attribute(name); twice {
			p.Add(memberPath(at, name), "is given twice")
			continue
		}
		c.Attributes = append(c.Attributes, penstock.Attribute{
			Name: name, Value: onevalue.Trim(p.text(member, memberPath(at, name), 0, bounds.AttributeValue)),
		})
	}
}

// text reads a string within bounds on its bytes.
func (p *parser) text(v value, at string, least, most int) string {
	if v[0] != '"' {
		p.Add(at, "must be a string, is %s", v.kind())
		return ""
	}
	s, ok := v.text()
	switch {
	case !ok:
		p.Add(at, `holds half of a surrogate pair: a character above U+FFFF needs two \u escapes`)
	case len(s) < least || len(s) > most:
		p.Add(at, "has %d bytes, must have from %d to %d", len(s), least, most)
	}
	return s
}

func (p *parser) integer(v value, at string, least, most int64) int64 {
	if kind := v.kind(); kind != "a number" {
		p.Add(at, "must be an integer, is %s", kind)
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < least || n > most {
		p.Add(at, "%.24s is not an integer from %d to %d", v, least, most)
		return 0
	}
	return n
}

func (p *parser) milliseconds(v value, at string, least, most time.Duration) time.Duration {
	return time.Duration(p.integer(v, at, least.Milliseconds(), most.Milliseconds())) * time.Millisecond
}

// memberPath returns the path of a member. Its name is text of the client, of any length.
func memberPath(at, name string) string {
	if plain := strings.Map(plainRune, name); plain != name || name == "" || len(name) > 64 {
		name = fmt.Sprintf("%.64q", name)
	}
	if at == "" {
		return name
	}
	return at + "." + name
}

func plainRune(r rune) rune {
	if r <= ' ' || r == '"' || r == '.' || r == 0x7f || !strconv.IsPrint(r) {
		return -1
	}
	return r
}

func names(fields []field) string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	return strings.Join(all, ", ")
}
