package entitlement

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules"
)

// A Table holds entitlements by a 128-bit hash of attribute, value and name: two rows share a hash with a probability
// of one in 10^25 for five million rows. The seeds are secret and differ between processes, so that no one can look for
// a name that has the hash of another. The zero value is not usable; see NewTable.
type Table struct {
	seeds [2]maphash.Seed
	parts atomic.Pointer[parts]
}

// parts are locked one by one, so that a change delays few lookups.
type parts [1 << 8]part

type part struct {
	mu   sync.RWMutex
	rows map[key]rules.Entitlement
}

type key [2]uint64

var _ rules.Entitlements = (*Table)(nil)

// NewTable returns an empty table.
func NewTable() *Table {
	t := &Table{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	t.parts.Store(new(parts))
	return t
}

// Entitlement implements [rules.Entitlements].
func (t *Table) Entitlement(attribute, value, name string) (rules.Entitlement, bool) {
	k := t.key(attribute, value, name)
	p := t.parts.Load().of(k)
	p.mu.RLock()
	e, ok := p.rows[k]
	p.mu.RUnlock()
	return e, ok
}

func (t *Table) key(attribute, value, name string) (k key) {
	for i, seed := range t.seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		for _, text := range [...]string{attribute, value, name} { // none of a row contains the separator
			h.WriteString(text)
			h.WriteByte(0)
		}
		k[i] = h.Sum64()
	}
	return k
}

func (p *parts) of(k key) *part { return &p[k[0]%uint64(len(p))] }

// apply sets and deletes rows.
func (t *Table) apply(to *parts, rows []ruledb.ChangedEntitlement) {
	for i := range rows {
		e := &rows[i]
		k := t.key(e.Attribute, e.Value, e.Name)
		p := to.of(k)
		p.mu.Lock()
		switch {
		case e.Deleted:
			delete(p.rows, k)
		case p.rows == nil:
			p.rows = map[key]rules.Entitlement{}
			fallthrough
		default:
			p.rows[k] = rules.Entitlement{Number: e.Number, Until: penstock.Instant(e.Until)}
		}
		p.mu.Unlock()
	}
}

// Len returns the number of rows.
func (t *Table) Len() (n int) {
	all := t.parts.Load()
	for i := range all {
		all[i].mu.RLock()
		n += len(all[i].rows)
		all[i].mu.RUnlock()
	}
	return n
}
