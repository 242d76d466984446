package ipform_test

import (
	"net/netip"
	"testing"

	"github.com/penstock-io/penstock/internal/ipform"
)

func TestCanonical(t *testing.T) {
	for address, want := range map[string]struct{ canonical, network string }{
		"192.0.2.1":            {"192.0.2.1", "192.0.2.1/32"},
		"::ffff:192.0.2.1":     {"192.0.2.1", "192.0.2.1/32"},
		"2001:db8:1:2:3:4:5:6": {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		"fe80::1%eth0":         {"fe80::1", "fe80::/64"},

		// NAT64
		"64:ff9b::192.0.2.1":    {"192.0.2.1", "192.0.2.1/32"},
		"64:ff9b::c000:202":     {"192.0.2.2", "192.0.2.2/32"},
		"64:ff9b::192.0.2.1%e0": {"192.0.2.1", "192.0.2.1/32"},
		"64:ff9b::10.0.0.1":     {"64:ff9b::a00:1", "64:ff9b::a00:1/128"}, // private: each is a separate client
		"64:ff9b::127.0.0.1":    {"64:ff9b::7f00:1", "64:ff9b::7f00:1/128"},
		"64:ff9b::100.64.0.1":   {"64:ff9b::6440:1", "64:ff9b::6440:1/128"},
		"64:ff9b:1::c000:201":   {"64:ff9b:1::c000:201", "64:ff9b:1::/64"}, // for local use: the operator chooses its length
		"64:ff9b:0:0:1::1":      {"64:ff9b::1:0:0:1", "64:ff9b::/64"},

		// 6to4
		"2002:c000:201::1":         {"192.0.2.1", "192.0.2.1/32"},
		"2002:c000:201:ffff::1":    {"192.0.2.1", "192.0.2.1/32"},
		"2002:a00:1::1":            {"2002:a00:1::1", "2002:a00:1::/64"},
		"2002:a9fe:a9fe::1":        {"2002:a9fe:a9fe::1", "2002:a9fe:a9fe::/64"},
		"2002:e000:1::1":           {"2002:e000:1::1", "2002:e000:1::/64"},
		"2002:7f00:1::":            {"2002:7f00:1::", "2002:7f00:1::/64"},
		"2002::":                   {"2002::", "2002::/64"},
		"2003:c000:201::1":         {"2003:c000:201::1", "2003:c000:201::/64"},
		"::ffff:64:ff9b:c000:0201": {"::ffff:64:ff9b:c000:201", "0:0:0:ffff::/64"},
	} {
		a := netip.MustParseAddr(address)
		if got := ipform.Canonical(a); got.String() != want.canonical {
			t.Errorf("%s is %v, want %s", address, got, want.canonical)
		}
		if got := ipform.Network(a, 64); got.String() != want.network {
			t.Errorf("the network of %s is %v, want %s", address, got, want.network)
		}
	}
}

func TestCanonicalNetwork(t *testing.T) {
	for network, want := range map[string]string{
		"192.0.2.0/24":            "192.0.2.0/24",
		"::ffff:192.0.2.0/120":    "192.0.2.0/24",
		"2001:db8::/32":           "2001:db8::/32",
		"::/0":                    "::/0",
		"64:ff9b::192.0.2.0/120":  "192.0.2.0/24",
		"64:ff9b::192.0.2.1/128":  "192.0.2.1/32",
		"64:ff9b::10.0.0.0/104":   "64:ff9b::a00:0/104",
		"64:ff9b::/64":            "64:ff9b::/64",
		"2002:c000:200::/40":      "192.0.2.0/24",
		"2002:c000:201::/48":      "192.0.2.1/32",
		"2002:c000:201:5::/64":    "192.0.2.1/32",
		"2002:c000:201:5::1/128":  "192.0.2.1/32",
		"2002:a00::/24":           "2002:a00::/24",
		"2002::/15":               "2002::/15",
		"64:ff9b::/96":            "none",
		"2002::/16":               "none",
		"2002::/23":               "none",
		"::ffff:0:0/95":           "::fffe:0:0/95",
		"64:ff9b::c000:201:0/112": "64:ff9b::c000:201:0/112",
	} {
		got, ok := ipform.CanonicalNetwork(netip.MustParsePrefix(network))
		if text := got.String(); ok && text != want || ok == (want == "none") {
			t.Errorf("%s is %v, %v; want %s", network, got, ok, want)
		}
	}
}

func TestHasClients(t *testing.T) {
	for network, want := range map[string]bool{
		"192.0.2.1/32": true, "192.0.2.0/24": true, "2001:db8:1:2::/64": true, "2001:db8::/32": true, "::/0": true,
		"2001:db8:1:2::/128": true, "2001:db8:1:2::/96": true, "64:ff9b::a00:1/128": true,
		"2001:db8:1:2::5/128": false, "2001:db8:1:2:3::/80": false, "::1/128": false, "fe80::1/128": false,
	} {
		if got := ipform.HasClients(netip.MustParsePrefix(network)); got != want {
			t.Errorf("%s: %v, want %v", network, got, want)
		}
	}
}
