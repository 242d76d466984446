package accesslog

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/ipform"
	"github.com/penstock-io/penstock/internal/urlform"
)

// An Attribute is what requests are to have, if the log says it.
type Attribute struct {
	Name string
	From *attribute.Source // where rules take it from; nil: they do not say
}

// find returns a field by a name that formats share, or the one that was named for it.
func (o *Options) find(f fields, name string) (string, bool) {
	if _, named := f.(namedFields); !named {
		if field := o.Fields[name]; field != "" {
			return f.get(field)
		}
	}
	return f.get(name)
}

// value returns an attribute in the form in which a gateway passes it to rules.
func (o *Options) value(f fields, a *Attribute) (value string, ok bool) {
	_, named := o.Fields[a.Name]
	switch {
	case named || a.From == nil:
		value, ok = o.find(f, a.Name)
	case a.From.Header != "":
		value, ok = o.header(f, a.From.Header)
	case a.From.Query != "":
		value, ok = o.parameter(f, a.From.Query)
	default: // cookies, claims and certificates are in no log under a name of their own
		value, ok = f.get(a.Name)
	}
	if !ok {
		return "", false
	}
	switch a.Name {
	case fieldIP:
		return o.network(value), true
	case fieldHost:
		host, err := urlform.Host(value)
		return host, err == nil
	}
	return value, true
}

// network returns what a client's address counts as.
func (o *Options) network(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	return ipform.Network(ipform.Canonical(address), o.IPv6Prefix).Addr().String()
}

func (o *Options) header(f fields, name string) (string, bool) {
	switch strings.ToLower(name) {
	case "user-agent":
		return o.find(f, fieldAgent)
	case "referer":
		return o.find(f, fieldReferer)
	case "host":
		return o.find(f, fieldHost)
	}
	n, ok := f.(namedFields)
	if !ok || n.header == "" {
		return "", false
	}
	return n.lookup(fmt.Sprintf(n.header, name))
}

func (o *Options) parameter(f fields, name string) (string, bool) {
	query, ok := o.find(f, fieldQuery)
	if !ok || !strings.Contains(query, name) {
		return "", false
	}
	values, err := url.ParseQuery(query)
	if err != nil || len(values[name]) != 1 {
		return "", false
	}
	return values[name][0], true
}

// CheckAttribute reports an attribute that no line of some file can have. Formats whose fields depend on the
// file can have any.
func (l *Log) CheckAttribute(a Attribute) error {
	for _, s := range l.sources {
		if err := s.format.check(&a, &l.options); err != nil {
			return err
		}
	}
	return nil
}

func (f Format) check(a *Attribute, o *Options) error {
	if f.fields == nil {
		return nil
	}
	has := func(name string) bool {
		for _, field := range f.fields {
			if field == name {
				return true
			}
		}
		return strings.HasPrefix(name, "extra") && len(name) == len("extra1") && name[5] >= '1' && name[5] <= '9'
	}
	name := o.Fields[a.Name]
	switch {
	case name != "":
		if !has(name) {
			return fmt.Errorf("--field %s=%s: a line of format %s has no field %q; it has %s, and extra1 to extra9 for what follows them", a.Name, name, f.Name, name, strings.Join(f.fields, ", "))
		}
		return nil
	case a.From != nil && a.From.Query != "":
		return nil
	case a.From != nil && a.From.Header != "":
		switch strings.ToLower(a.From.Header) {
		case "user-agent":
			name = fieldAgent
		case "referer":
			name = fieldReferer
		case "host":
			name = fieldHost
		}
	default:
		name = a.Name
	}
	if name != "" && has(name) {
		return nil
	}
	return fmt.Errorf("a log of format %s does not have the attribute %q; if the log has it after the usual fields, say where with --field %s=extra1", f.Name, a.Name, a.Name)
}
