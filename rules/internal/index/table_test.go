package index

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// Everything added under a hash is found, however full the table and however similar the hashes.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hashes := rapid.SliceOfN(rapid.SampledFrom([]uint64{
			1, 2, 3, 1 << 32, 1<<32 | 1, 7<<32 | 1, 7 << 32, 1<<63 | 7, ^uint64(0), 1<<63 | 1<<32,
		}), 1, 40).Draw(t, "hashes")
		var leads []tableEntry
		want := map[uint64]map[int32]bool{}
		for i, hash := range hashes {
			leads = append(leads, tableEntry{hash, int32(i + 1)})
			if want[hash] == nil {
				want[hash] = map[int32]bool{}
			}
			want[hash][int32(i+1)] = true
		}
		table := newTable(leads)
		for hash, all := range want {
			for to, next := table.find(hash, table.first(hash)); to != 0; to, next = table.find(hash, next) {
				delete(all, to)
			}
			if len(all) > 0 {
				t.Errorf("%x: not found: %v", hash, all)
			}
		}
		if to, _ := table.find(5<<40, table.first(5<<40)); to != 0 {
			t.Errorf("what was never added leads to %d", to)
		}
	})
}

// Conditions on networks, as they are checked, hold for the addresses that the networks contain.
func TestWithin(t *testing.T) {
	addresses := rapid.Custom(func(t *rapid.T) netip.Addr {
		b := [16]byte{}
		if rapid.Bool().Draw(t, "IPv4") {
			b[10], b[11] = 0xff, 0xff
			copy(b[12:], rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 128, 255}), 4, 4).Draw(t, "bytes"))
		} else {
			copy(b[:], rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 1, 255}), 16, 16).Draw(t, "bytes"))
		}
		return netip.AddrFrom16(b).Unmap()
	})
	rapid.Check(t, func(t *rapid.T) {
		addr, of := addresses.Draw(t, "address"), addresses.Draw(t, "network")
		network, err := of.Prefix(rapid.IntRange(0, of.BitLen()).Draw(t, "length"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bitsOf(addr).within(networkText(network)), network.Contains(addr); got != want {
			t.Errorf("%v in %v: %v, want %v", addr, network, got, want)
		}
		p := label{kind: inNetwork, network: network}
		l := lookFor(p)
		if network.Contains(addr) && networkHash(bitsOf(addr), l.at, 3) != labelHash(p, l, 3) {
			t.Errorf("%v is not found under %v", addr, network)
		}
	})
}
