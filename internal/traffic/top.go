package traffic

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/penstock-io/penstock"
)

// KeyStats are how often a rule was applied to a client. They are estimates: at high rates only a sample is counted.
type KeyStats struct {
	Key     []penstock.Attribute
	Allowed int64 // since it was first denied
	Denied  int64
	Shadow  int64 // that a shadow rule would have denied
}

// refused is what clients are ordered by.
func (k *KeyStats) refused() int64 { return k.Denied + k.Shadow }

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
	switch {
	case !known && k.Result != Denied && k.Result != ShadowDenied:
		return
	case !known:
		i = t.place(name)
		t.entries[i].Key, t.entries[i].Allowed = k.Key, 0
	}
	switch k.Result {
	case Denied:
		t.entries[i].Denied += weight
	case ShadowDenied:
		t.entries[i].Shadow += weight
	default:
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
		if t.entries[i].refused() < t.entries[least].refused() {
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

// mergeClients merges lists of clients, most denied first.
func mergeClients(lists ...[]KeyStats) []KeyStats {
	sum := map[string]KeyStats{}
	for _, list := range lists {
		for _, e := range list {
			s := sum[nameOf(e.Key)]
			sum[nameOf(e.Key)] = KeyStats{e.Key, s.Allowed + e.Allowed, s.Denied + e.Denied, s.Shadow + e.Shadow}
		}
	}
	all := slices.SortedFunc(maps.Values(sum), func(a, b KeyStats) int {
		return cmp.Or(cmp.Compare(b.refused(), a.refused()), cmp.Compare(nameOf(a.Key), nameOf(b.Key)))
	})
	return all[:min(len(all), topSize)]
}
