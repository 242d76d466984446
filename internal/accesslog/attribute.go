package accesslog

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/ipform"
	"github.com/penstock-io/penstock/internal/urlform"
)

// An Attribute is an attribute to read from the log, if the log has it.
type Attribute struct {
	Name string
	From *attribute.Source // its source in the rules; nil: they do not say
}

// find returns a field by a name that all formats share, or by the name that the user gave for it.
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
	if n, ok := f.(namedFields); ok && n.fieldNames == replay {
		return n.lookup("attributes." + a.Name)
	}
	_, named := o.Fields[a.Name]
	switch {
	case named || a.From == nil:
		value, ok = o.find(f, a.Name)
	case a.From.Header != "":
		value, ok = o.header(f, a.From.Header)
	case a.From.Query != "":
		value, ok = o.parameter(f, a.From.Query)
	default: // no log has its own field for cookies, claims or certificates
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

// network returns the form in which a client's address is counted.
func (o *Options) network(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	return ipform.Network(ipform.Canonical(address), o.IPv6Prefix).Addr().String()
}

// headerFields are headers for which many formats have their own field.
var headerFields = map[string]string{"user-agent": fieldAgent, "referer": fieldReferer, "host": fieldHost}

func (o *Options) header(f fields, name string) (string, bool) {
	if field := headerFields[strings.ToLower(name)]; field != "" {
		return o.find(f, field)
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

// CheckAttribute reports an attribute that no line of some file can have. A format whose fields depend on the
// file can have any attribute.
func (l *Log) CheckAttribute(a Attribute) error {
	for _, s := range l.sources {
		if err := s.format.check(&a, &l.options); err != nil {
			return err
		}
	}
	return nil
}

func (f Format) check(a *Attribute, o *Options) error {
	if f.fields == nil || a.From != nil && a.From.Query != "" {
		return nil
	}
	if named := o.Fields[a.Name]; named != "" {
		if f.has(named) {
			return nil
		}
		return fmt.Errorf("--field %s=%s: a line of format %s has no field %q; it has %s, and extra1 to extra9 for what follows them", a.Name, named, f.Name, named, strings.Join(f.fields, ", "))
	}
	name := a.Name
	if a.From != nil && a.From.Header != "" {
		name = headerFields[strings.ToLower(a.From.Header)]
	}
	if f.has(name) {
		return nil
	}
	return fmt.Errorf("a log of format %s does not have the attribute %q; if the log has it after the usual fields, say where with --field %s=extra1", f.Name, a.Name, a.Name)
}

// has reports whether every line of the format has a field, or may have it after the usual ones.
func (f Format) has(name string) bool {
	n, extra := strings.CutPrefix(name, "extra")
	return slices.Contains(f.fields, name) || extra && len(n) == 1 && n[0] >= '1' && n[0] <= '9'
}
