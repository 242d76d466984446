package urlform

import (
	"errors"
	"strings"
	"testing"
)

var hosts = map[string]string{
	"a": "a", "Example.COM": "example.com", "example.com:80": "example.com", "example.com.": "example.com", "EXAMPLE.com.:443": "example.com", "example.com:": "example.com",
	"a:0": "a", "a:65535": "a", "a:00080": "a", "my_service": "my_service", "xn--bcher-kva.example": "xn--bcher-kva.example", "a-b.c--d": "a-b.c--d", "web-0.1a": "web-0.1a", "0x": "", "localhost": "localhost",
	"1.2.3.4:5": "1.2.3.4", "1.2.3.4.": "1.2.3.4", "[2001:DB8::1]:80": "2001:db8::1", "[::1]": "::1", "[0:0:0:0:0:0:0:1]:": "::1", "[::ffff:1.2.3.4]": "::ffff:1.2.3.4",
	strings.Repeat("a", 63) + ".b": strings.Repeat("a", 63) + ".b",
}

// badHosts are ambiguous. Each was, or could be, a way around a rule for a host.
var badHosts = []string{
	"", ".", ":", ":80", "a..b", ".a", "a..", "a:80:80", "a::80", "a:80:", "a:65536", "a:99999", "a:000080", "a:-1", "a:+80", "a:8o", "a: 80", "a :80", " a", "a ", "a\t", "a\r\nb", "a\x00", "a\x7f",
	"user@a", "user:secret@a", "@a", "a@", "a/b", "a\\b", "a?b", "a#b", "a,b", "a, b", "a;b", "a&b", "a=b", "a+b", "a!b", "a$b", "a'b", "a(b)", "a*b", "*.a", "*", "a~b", "a\"b", "a<b>", "a|b", "a^b", "a`b", "a{b}",
	"a%2eb", "%61", "a%00", "%", "ä.example", "bücher.example", "a。b", "ａ", "a\u200b", "\xff",
	"[::1", "::1]", "::1", "[::1]x", "[::1]:80:80", "[::1]:x", "[::1]80", "[]", "[1.2.3.4]", "[::1%25eth0]", "[::1%eth0]", "[v1.a]", "[[::1]]", "[::1].", "2001:db8::1", "[:::1]", "[12345::]",
	"127.1", "1", "0", "017700000001", "0x7f.0.0.1", "0x7f000001", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.04", "a.1", "a.0x1", "2130706433",
	strings.Repeat("a", 64), strings.Repeat("a.", 128), "http://a", "a:http",
}

func TestHost(t *testing.T) {
	for header, want := range hosts {
		got, err := Host(header)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", header, got, err, want)
		}
	}
	for _, header := range badHosts {
		got, err := Host(header)
		var invalid *HostError
		if got != "" || !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), "invalid Host header \"") {
			t.Errorf("%q: %q, %v; want an error", header, got, err)
		}
	}
	if _, err := Host("a:80:80"); err.Error() != `invalid Host header "a:80:80"` {
		t.Error(err)
	}
	if _, err := Host(strings.Repeat("x", 1000)); len(err.Error()) > 200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestHostAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Host("api.example.com:8080") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzHost checks that an accepted host has one normal form, whatever its case, port and trailing dot.
func FuzzHost(f *testing.F) {
	for header := range hosts {
		f.Add(header)
	}
	for _, header := range badHosts {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		name, err := Host(header)
		if err != nil {
			if name != "" {
				t.Errorf("%q: %q and %v", header, name, err)
			}
			return
		}
		if name == "" || name != strings.ToLower(name) || len(name) > maxName || strings.HasSuffix(name, ".") {
			t.Errorf("%q: %q is not in normal form", header, name)
		}
		spellings := []string{name, name + ":8080", name + ".", strings.ToUpper(name) + ".:1"}
		if strings.Contains(name, ":") {
			spellings = []string{"[" + name + "]", "[" + strings.ToUpper(name) + "]:8080"}
		}
		for _, spelling := range spellings {
			if again, err := Host(spelling); again != name || err != nil {
				t.Errorf("%q: %q, but %q: %q, %v", header, name, spelling, again, err)
			}
		}
	})
}
