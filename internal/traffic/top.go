package traffic

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/penstock-io/penstock"
)

// KeyStats are how often a rule was applied to a client. They are estimates: at high rates only a sample is counted.
type KeyStats struct {
	Key     []penstock.Attribute
	Allowed int64 // since it was first denied
	Denied  int64
}

// A top is the clients that are denied most, by the Space-Saving algorithm: a new client takes the place and the
// count of the lowest. Every client with more than 1/topSize of all denials is in it.
type top struct {
	entries []KeyStats
	names   map[string]int // of the key, to its entry
}

const topSize = 32

// add counts requests of one client.
func (t *top) add(k *RuleKey, weight int64) {
	name := nameOf(k.Key)
	i, known := t.names[name]
	denied := k.Result == Denied || k.Result == ShadowDenied
	switch {
	case !known && !denied:
		return
	case !known:
		i = t.place(name)
		t.entries[i].Key, t.entries[i].Allowed = k.Key, 0
	}
	if denied {
		t.entries[i].Denied += weight
	} else {
		t.entries[i].Allowed += weight
	}
}

// place returns an entry for a new client.
func (t *top) place(name string) int {
	if t.names == nil {
		t.names = make(map[string]int, topSize)
	}
	if len(t.entries) < topSize {
		t.entries = append(t.entries, KeyStats{})
		t.names[name] = len(t.entries) - 1
		return len(t.entries) - 1
	}
	least := 0
	for i := range t.entries {
		if t.entries[i].Denied < t.entries[least].Denied {
			least = i
		}
	}
	delete(t.names, nameOf(t.entries[least].Key))
	t.names[name] = least
	return least
}

// nameOf returns a name that is unique among the keys of a rule.
func nameOf(key []penstock.Attribute) string {
	if len(key) == 1 {
		return key[0].Value
	}
	var name []byte
	for _, part := range key {
		name = binary.AppendUvarint(name, uint64(len(part.Value)))
		name = append(name, part.Value...)
	}
	return string(name)
}

// together merges several tops, most denied first.
func together(tops []*top, most int) []KeyStats {
	sum := map[string]KeyStats{}
	for _, t := range tops {
		for _, e := range t.entries {
			s := sum[nameOf(e.Key)]
			sum[nameOf(e.Key)] = KeyStats{e.Key, s.Allowed + e.Allowed, s.Denied + e.Denied}
		}
	}
	all := make([]KeyStats, 0, len(sum))
	for _, s := range sum {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b KeyStats) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(nameOf(a.Key), nameOf(b.Key)))
	})
	return all[:min(len(all), most)]
}
