package envoyratelimit

import (
	"cmp"
	"slices"

	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/rules"
)

// Options say how files are read.
type Options struct {
	// MergeDomains allows several files for the same domain.
	MergeDomains bool

	// Together charges the descriptors of a request atomically. Otherwise each is charged by itself, even if it is
	// denied, as in envoyproxy/ratelimit.
	Together bool

	// Bans lets operators ban keys. Every request then checks for a ban, and denials are not cached.
	Bans bool
}

// Load reads files, one domain each. Its error is [rules.Problems]: all errors of all files, with their positions.
// Warnings are about fields without effect, which envoyproxy/ratelimit ignores too.
func Load(files []rules.File, o Options) (_ *Config, warnings rules.Problems, _ error) {
	c := &Config{domains: map[string]*level{}}
	var mistakes rules.Problems
	for _, from := range files {
		f := &file{name: from.Name}
		root := f.parse(from.Data)
		if len(f.problems) == 0 {
			f.load(c, root, o)
		}
		slices.SortStableFunc(f.problems, func(a, b rules.Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		for _, p := range f.problems {
			if p.Severity == rules.Warning {
				warnings = append(warnings, p)
			} else {
				mistakes = append(mistakes, p)
			}
		}
	}
	if len(mistakes) > 0 {
		return nil, warnings, mistakes
	}
	return c, warnings, nil
}

// load adds the contents of a file to its domain.
func (f *file) load(c *Config, root node, o Options) {
	if root.Kind != mapping && root.Kind != nothing {
		f.fail(root.At, "error loading config file: it must be a mapping, not %v", root.Kind)
		return
	}
	var domain string
	at := root.At
	var descriptors *node
	f.fields(&root, map[string]func(*node){
		"domain":      func(n *node) { domain, at = f.text(n), n.At },
		"descriptors": func(n *node) { descriptors = n },
	})
	_, taken := c.domains[domain]
	switch {
	case domain == "":
		f.fail(at, "config file cannot have empty domain")
	case taken && !o.MergeDomains:
		f.fail(at, "duplicate domain '%.128s' in config file", domain)
	case len(domain) > rls.MaxDomain:
		f.warn(at, "the domain has %d bytes and can never be reached: requests with a domain of more than %d are refused", len(domain), rls.MaxDomain)
	}
	into := c.domains[domain]
	if into == nil {
		into = newLevel()
		c.domains[domain], c.order = into, append(c.order, domain)
	}
	if descriptors != nil {
		f.level(into, descriptors, domain+".")
	}
}

func (f *file) level(into *level, n *node, parent string) {
	for _, item := range f.mappings(n) {
		if f.untold {
			return
		}
		d := f.descriptor(item, parent)
		if d == nil {
			continue
		}
		if into.lookUp(d) != nil {
			f.fail(item.At, "duplicate descriptor composite key '%.256s'", parent+d.composite())
			continue
		}
		if other := into.hiddenBy(d); other != nil {
			f.warn(item.At, "this descriptor can never be reached: the value %.64q of the same key matches all of its values and is before it", other.value)
		}
		if d.wild && fits(d.value, "") && into.bare[d.key] != nil {
			f.warn(item.At, "the descriptor of the same key without a value can never be reached: this one matches every value")
		}
		into.add(d)
	}
}

// hiddenBy returns a wildcard that matches every value of d before d does, or nil if there is none. It compares d with
// the first wildcards only, since there can be very many.
func (l *level) hiddenBy(d *descriptor) *descriptor {
	const most = 256
	before := l.wild[d.key]
	for _, other := range before[:min(len(before), most)] {
		if (d.wild || d.value == "") && fits(other.value, d.value) {
			return other
		}
	}
	return nil
}

// composite returns the name that the service gives to a descriptor. It is for display: it need not be unique.
func (d *descriptor) composite() string {
	if d.value == "" {
		return d.key
	}
	return d.key + "_" + d.value
}

// mappings returns the items of a list, all of which must be mappings.
func (f *file) mappings(n *node) (items []*node) {
	switch n.Kind {
	case nothing:
		return nil
	case list:
	default:
		f.fail(n.At, "error loading config file: %s must be a list, not %v", n.Key, n.Kind)
		return nil
	}
	for i := 0; i < len(n.Items) && !f.untold; i++ {
		item := &n.Items[i]
		if item.Kind != mapping {
			f.fail(item.At, "config error, yaml file contains list of type other than map: %.64s", cmp.Or(item.Text, item.Kind.String()))
			continue
		}
		items = append(items, item)
	}
	return items
}
