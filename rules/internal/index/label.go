package index

import "net/netip"

// A facet is one requirement of conditions. A request that meets it has at least one of its labels.
type facet []label

// A label is a value that conditions can be filed under.
type label struct {
	kind    labelKind
	slot    int
	text    string       // the value, its prefix or suffix, or a path pattern without names
	network netip.Prefix // of inNetwork
}

type labelKind uint8

const (
	withValue labelKind = iota
	withPrefix
	withSuffix
	inNetwork
	onPath
)

// facetsOf returns the facets of conditions, the fastest to look up first. It returns at most as many as a filing
// can mark.
func facetsOf(c *Conditions) []facet {
	var all []facet
	for i := range c.Attributes {
		if f, ok := attributeFacet(&c.Attributes[i]); ok {
			all = append(all, f)
		}
	}
	if c.Path.Text != "" {
		all = append(all, facet{{kind: onPath, slot: c.pathSlot, text: c.Path.Shape()}})
	}
	if c.Domain != "" {
		all = append(all, facet{{kind: withValue, slot: domainSlot, text: c.Domain}})
	}
	if len(c.Methods) > 0 {
		var f facet
		for _, method := range c.Methods {
			f = append(f, label{kind: withValue, slot: methodSlot, text: method})
		}
		all = append(all, f)
	}
	return all[:min(len(all), 64)]
}

// attributeFacet returns a facet with a label for each of the patterns. ok is false for `*` and `*a*`, which
// match values that have nothing in common.
func attributeFacet(a *Attribute) (facet, bool) {
	f := make(facet, 0, len(a.Patterns))
	for i := range a.Patterns {
		p := label{slot: a.slot}
		switch pattern := &a.Patterns[i]; {
		case pattern.Network.IsValid():
			p.kind, p.network = inNetwork, pattern.Network
		case !pattern.Wild:
			p.kind, p.text = withValue, pattern.Text
		default:
			prefix, suffix := pattern.Affixes()
			if prefix == "" && suffix == "" {
				return nil, false
			}
			p.kind, p.text = withPrefix, prefix
			if len(suffix) > len(prefix) {
				p.kind, p.text = withSuffix, suffix
			}
		}
		f = append(f, p)
	}
	return f, true
}
