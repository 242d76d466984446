package httplimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

var testProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}

func TestClientIP(t *testing.T) {
	const peer = "10.0.0.1:1234"
	for _, test := range []struct {
		name, header, peer string
		lines              []string
		want               string
	}{
		{"no proxy", "", "192.0.2.1:99", nil, "192.0.2.1"},
		{"from an untrusted peer nothing is believed", "", "192.0.2.1:99", []string{"198.51.100.7"}, "192.0.2.1"},
		{"one proxy", "", peer, []string{"198.51.100.7"}, "198.51.100.7"},
		{"the caller's own claim stays at the left", "", peer, []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		{"several proxies", "", peer, []string{"203.0.113.9, 198.51.100.7, 10.1.1.1,10.2.2.2"}, "198.51.100.7"},
		{"several lines", "", peer, []string{"203.0.113.9", "198.51.100.7", "10.1.1.1"}, "198.51.100.7"},
		{"only proxies", "", peer, []string{"10.1.1.1, 10.2.2.2"}, "10.1.1.1"},
		{"no header", "", peer, nil, "10.0.0.1"},
		{"an empty header", "", peer, []string{""}, "10.0.0.1"},
		{"garbage ends the walk", "", peer, []string{"198.51.100.7, unknown, 10.1.1.1"}, "10.1.1.1"},
		{"an empty element ends the walk", "", peer, []string{"198.51.100.7,"}, "10.0.0.1"},
		{"IPv4 in IPv6", "", "[::ffff:10.0.0.1]:1", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		{"NAT64", "", "[64:ff9b::c633:6407]:1", nil, "198.51.100.7"},
		{"NAT64, behind a proxy", "", peer, []string{"64:ff9b::198.51.100.7"}, "198.51.100.7"},
		{"6to4", "", peer, []string{"2002:c633:6407:1::2"}, "198.51.100.7"},
		{"a proxy is not trusted for an address within its own", "", "[64:ff9b::a00:1]:1", []string{"198.51.100.7"}, "64:ff9b::a00:1"},
		{"nor is one with 6to4", "", "[2002:a00:1::1]:1", []string{"198.51.100.7"}, "2002:a00:1::1"},
		{"nor is one in the header", "", peer, []string{"198.51.100.7, 64:ff9b::10.0.0.1"}, "64:ff9b::a00:1"},
		{"a zone", "", "[fe80::1%eth0]:1", nil, "fe80::1"},
		{"with ports", "", peer, []string{"198.51.100.7:4711, [fd00::1]:80"}, "198.51.100.7"},
		{"no leading zeroes, which are octal to some", "", peer, []string{"198.51.100.07"}, "10.0.0.1"},
		{"IPv6", "", "[fd00::2]:80", []string{"2001:db8::7"}, "2001:db8::7"},
		{"a port that is none", "", peer, []string{"198.51.100.7:x"}, "10.0.0.1"},

		{"forwarded", "Forwarded", peer, []string{"for=198.51.100.7;proto=http;by=203.0.113.43"}, "198.51.100.7"},
		{"forwarded, several", "Forwarded", peer, []string{`for=192.0.2.43, For="[2001:db8:cafe::17]:4711"`, "proto=https;for=10.1.1.1"}, "2001:db8:cafe::17"},
		{"forwarded, unknown", "Forwarded", peer, []string{"for=198.51.100.7, for=unknown"}, "10.0.0.1"},
		{"forwarded, hidden", "Forwarded", peer, []string{"for=198.51.100.7, for=_gazonk, for=10.1.1.1"}, "10.1.1.1"},
		{"forwarded, hidden port", "Forwarded", peer, []string{`for="198.51.100.7:_port"`}, "198.51.100.7"},
		{"forwarded, without for", "Forwarded", peer, []string{"for=198.51.100.7, proto=http"}, "10.0.0.1"},
		{"forwarded, for twice", "Forwarded", peer, []string{"for=198.51.100.7;for=203.0.113.1"}, "10.0.0.1"},
		{"forwarded, quoted comma", "Forwarded", peer, []string{`for=203.0.113.1, for=198.51.100.7;host="a, for=203.0.113.2"`}, "198.51.100.7"},
		{"forwarded, quoted escapes", "Forwarded", peer, []string{`for=198.51.100.7;host="a\", for=203.0.113.2"`}, "198.51.100.7"},
		{"forwarded, an open quotation", "Forwarded", peer, []string{`for="203.0.113.1, for=198.51.100.7`}, "10.0.0.1"},
		{"forwarded, unquoted IPv6 port", "Forwarded", peer, []string{`for=[2001:db8::1]:80`}, "2001:db8::1"},
		{"only the one header is believed", "Forwarded", peer, nil, "10.0.0.1"},

		{"a single address", "x-real-ip", peer, []string{"198.51.100.7"}, "198.51.100.7"},
		{"a single address, twice", "X-Real-IP", peer, []string{"198.51.100.7", "203.0.113.1"}, "10.0.0.1"},
		{"a single address that is a list", "X-Real-IP", peer, []string{"198.51.100.7, 203.0.113.1"}, "10.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReader(t, ReaderOptions{TrustedProxies: testProxies, ProxyHeader: test.header})
			req := request("/")
			req.RemoteAddr = test.peer
			req.Header[r.proxyHeader.name] = test.lines
			if r.proxyHeader.name != "X-Forwarded-For" {
				req.Header.Set("X-Forwarded-For", "203.0.113.66")
			}
			got, err := r.ClientIP(req)
			if err != nil || got.String() != test.want {
				t.Errorf("got %v, %v; want %s", got, err, test.want)
			}
		})
	}
}

// Names that some servers confuse with the header are other headers.
func TestHeaderNameTricks(t *testing.T) {
	r := newReader(t, ReaderOptions{TrustedProxies: testProxies})
	for _, name := range []string{"X_Forwarded_For", "x-forwarded-for", "X-Forwarded_For", "X-Forwarded-For ", "Forwarded", "X-Real-Ip", "True-Client-Ip"} {
		req := request("/")
		req.RemoteAddr = "10.0.0.1:1"
		req.Header[name] = []string{"198.51.100.7"}
		if got, _ := r.ClientIP(req); got.String() != "10.0.0.1" {
			t.Errorf("%q was believed: %v", name, got)
		}
	}
}

// Whatever a client sends, only what its proxies add at the right counts: it cannot pose as another client,
// nor avoid being counted.
func TestForgedForwarding(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"203.0.113.9", "10.0.0.1", "10.9.9.9", "fd00::1", "unknown", "", ",", ", ", "::ffff:10.1.1.1", `"`, `\`, "for=", "for=203.0.113.9", ";", "[", "]", ":80", "\t", "_x", "=", "127.0.0.1", "::1", "0x0a000001"}
	for _, header := range []string{"X-Forwarded-For", "Forwarded"} {
		r := newReader(t, ReaderOptions{TrustedProxies: testProxies, ProxyHeader: header})
		for range 2000 {
			var forged strings.Builder
			for range random.IntN(8) {
				forged.WriteString(parts[random.IntN(len(parts))])
			}
			added := []string{"198.51.100.7", "10.1.1.1"}
			if header == "Forwarded" {
				added = []string{"for=198.51.100.7", "for=10.1.1.1;proto=http"}
			}
			req := request("/")
			req.RemoteAddr = "10.0.0.1:1"
			req.Header[header] = []string{forged.String(), added[0], added[1]}
			if got, err := r.ClientIP(req); err != nil || got.String() != "198.51.100.7" {
				t.Fatalf("%s: %q: got %v, %v", header, forged.String(), got, err)
			}
			// On the same line, an unterminated quoted string can swallow what was added, and the client
			// counts as the proxy.
			req.Header[header] = []string{forged.String() + ", " + strings.Join(added, ", ")}
			got, _ := r.ClientIP(req)
			if got.String() != "198.51.100.7" && (header != "Forwarded" || got.String() != "10.0.0.1") {
				t.Fatalf("%s: %q: got %v", header, req.Header[header], got)
			}
		}
	}
}

func TestNetworkIsTheAttribute(t *testing.T) {
	for _, test := range []struct {
		peer string
		bits int
		want string
	}{
		{"192.0.2.1:1", 0, "192.0.2.1"},
		{"[::ffff:192.0.2.1]:1", 0, "192.0.2.1"},
		{"[::ffff:192.0.2.2]:1", 32, "192.0.2.2"}, // the prefix is for IPv6 alone
		{"[2001:db8:1:2:3:4:5:6]:1", 0, "2001:db8:1:2::"},
		{"[2001:db8:1:2::]:1", 0, "2001:db8:1:2::"},
		{"[2001:db8:1:2ff:3:4:5:6%en0]:1", 56, "2001:db8:1:200::"},
		{"[2001:DB8::1]:1", 128, "2001:db8::1"},
	} {
		r := newReader(t, ReaderOptions{IPv6Prefix: test.bits})
		req := request("/")
		req.RemoteAddr = test.peer
		if got := callOf(t, r, req)["ip"]; got != test.want {
			t.Errorf("%s/%d: got %q, want %q", test.peer, test.bits, got, test.want)
		}
	}
}

// A client with a /48 has 65,536 networks of 64 bits and no more.
func TestAddressesOfANetworkAreOneCaller(t *testing.T) {
	r := newReader(t, ReaderOptions{})
	random := rand.New(rand.NewPCG(3, 4))
	seen := map[string]bool{}
	for range 1000 {
		req := request("/")
		req.RemoteAddr = fmt.Sprintf("[2001:db8:1:%x:%x:%x:%x:%x]:1", random.IntN(4), random.IntN(1<<16), random.IntN(1<<16), random.IntN(1<<16), random.IntN(1<<16))
		seen[callOf(t, r, req)["ip"]] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d callers", len(seen))
	}
}

func TestTrusts(t *testing.T) {
	r := newReader(t, ReaderOptions{TrustedProxies: []netip.Prefix{
		netip.MustParsePrefix("10.1.2.3/8"), netip.MustParsePrefix("::ffff:192.0.2.0/120"), netip.MustParsePrefix("fe80::/10"),
	}})
	for addr, want := range map[string]bool{
		"10.200.0.1": true, "::ffff:10.0.0.1": true, "11.0.0.1": false, "192.0.2.77": true, "192.0.3.1": false, "fe80::1%eth0": true, "::1": false,
	} {
		if got := r.Trusts(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}

func TestPeerWithoutAddress(t *testing.T) {
	r := newReader(t, ReaderOptions{})
	for _, peer := range []string{"", "@", "/run/socket", "localhost:80", "1.2.3.4:", "[1.2.3.4]:80", "[::1", "[::1]x", "1.2.3.4:123456"} {
		req := request("/")
		req.RemoteAddr = peer
		if addr, err := r.ClientIP(req); err == nil {
			t.Errorf("%q: got %v", peer, addr)
		}
	}
}

func FuzzClientIP(f *testing.F) {
	f.Add("X-Forwarded-For", "203.0.113.9, 198.51.100.7", "10.1.1.1")
	f.Add("Forwarded", `for="[2001:db8::1]:80";host="a,b\""`, "for=10.1.1.1")
	f.Add("X-Real-Ip", "198.51.100.7", "")
	f.Fuzz(func(t *testing.T, header, first, second string) {
		r, err := NewReader(ReaderOptions{TrustedProxies: testProxies, ProxyHeader: header})
		if err != nil {
			return
		}
		req := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{r.proxyHeader.name: {first, second}}}
		addr, err := r.ClientIP(req)
		if err != nil || !addr.IsValid() || addr.Is4In6() || addr.Zone() != "" {
			t.Fatalf("%v, %v", addr, err)
		}
	})
}

// A Forwarded header that is rewritten with quoted strings is read the same.
func FuzzForwarded(f *testing.F) {
	f.Add(`for=192.0.2.60;proto=http;by=203.0.113.43`)
	f.Add(`for="_gazonk", For="[2001:db8:cafe::17]:4711",`)
	f.Add(`for="a\"b" ; x=y`)
	f.Fuzz(func(t *testing.T, line string) {
		nodes, ok := parseForwarded(line)
		if !ok {
			return
		}
		elements := make([]string, len(nodes))
		for i, n := range nodes {
			if elements[i] = "proto=http"; n != "" {
				elements[i] += `;for="` + n + `"`
			}
		}
		again, ok := parseForwarded(strings.Join(elements, " , "))
		if !ok || !slices.Equal(nodes, again) {
			t.Fatalf("%q: %q, then %q", line, nodes, again)
		}
	})
}
