package blocklist

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/ipform"
	"github.com/penstock-io/penstock/internal/urlform"
)

// A List finds the block of a request. The zero List is empty. It is safe for concurrent use.
type List struct{ table atomic.Pointer[table] }

// Set replaces the blocks.
func (l *List) Set(blocks []Block) {
	if len(blocks) == 0 {
		l.table.Store(nil)
		return
	}
	l.table.Store(newTable(blocks))
}

// Find returns the block with the latest end among those of the request's attributes, or nil if there is none. It may
// have ended since it was set. It does not allocate.
func (l *List) Find(c *penstock.Call) *Block {
	t := l.table.Load()
	if t == nil {
		return nil
	}
	var found *Block
	for i := range c.Attributes {
		a := &c.Attributes[i]
		if v := (*t)[a.Name]; v != nil {
			found = v.find(formOf(a.Name, a.Value), c.Domain, found)
		}
	}
	return found
}

// A table holds the blocks by attribute.
type table map[string]*values

// values are the blocks of one attribute. An address is in networks, in its one form.
type values struct {
	texts    map[string][]*Block
	networks map[netip.Prefix][]*Block
	v4, v6   []int // the prefix lengths in networks
}

func newTable(blocks []Block) *table {
	t := table{}
	for _, b := range blocks {
		v := t[b.Attribute]
		if v == nil {
			v = &values{texts: map[string][]*Block{}, networks: map[netip.Prefix][]*Block{}}
			t[b.Attribute] = v
		}
		v.add(&b)
	}
	return &t
}

func (v *values) add(b *Block) {
	network, ok := Network(b.Value)
	if !ok {
		text := formOf(b.Attribute, b.Value)
		v.texts[text] = append(v.texts[text], b)
		return
	}
	v.networks[network] = append(v.networks[network], b)
	lengths := &v.v6
	if network.Addr().Is4() {
		lengths = &v.v4
	}
	if !slices.Contains(*lengths, network.Bits()) {
		*lengths = append(*lengths, network.Bits())
	}
}

// formOf returns the form in which a value is compared. A path has the form in which rules that limit compare it:
// otherwise another spelling of it, such as an escape or a capital, would evade the block.
func formOf(attribute, value string) string {
	if attribute == "path" {
		return urlform.Loose.Path(urlform.Path(value))
	}
	return value
}

// find returns the later of found and the blocks of a value.
func (v *values) find(value, domain string, found *Block) *Block {
	found = latest(v.texts[value], domain, found)
	if len(v.networks) == 0 {
		return found
	}
	value, _, _ = strings.Cut(value, "%") // a zone is no part of an address
	if !mayBeAddress(value) {
		return found
	}
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return found
	}
	addr = ipform.Canonical(addr)
	lengths := v.v6
	if addr.Is4() {
		lengths = v.v4
	}
	for _, bits := range lengths {
		network, _ := addr.Prefix(bits) // fails only for lengths that no network has
		found = latest(v.networks[network], domain, found)
	}
	return found
}

func latest(blocks []*Block, domain string, found *Block) *Block {
	if domain == "" {
		domain = penstock.DefaultDomain
	}
	for _, b := range blocks {
		if (b.Domain == "" || b.Domain == domain) && (found == nil || found.Until.Before(b.Until)) {
			found = b
		}
	}
	return found
}

// mayBeAddress rules out most texts that are not addresses: an error of netip allocates.
func mayBeAddress(value string) bool {
	const longest = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
	if len(value) < len("::") || len(value) > longest {
		return false
	}
	separated := false
	for i := range len(value) {
		switch c := value[i]; {
		case c == '.' || c == ':':
			separated = true
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return separated
}
