package blocklist

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

var start = time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC)

func newBlock(id, domain, attribute, value string, length time.Duration) Block {
	return Block{ID: id, Domain: domain, Attribute: attribute, Value: value, Reason: "test", Author: "me", From: start, Until: start.Add(length)}
}

func TestFind(t *testing.T) {
	var l List
	find := func(domain, attribute, value string) string {
		c := penstock.Call{Domain: domain, Attributes: []penstock.Attribute{{Name: "method", Value: "GET"}, {Name: attribute, Value: value}}}
		if b := l.Find(&c); b != nil {
			return b.ID
		}
		return ""
	}
	if got := find("", "user", "u1"); got != "" {
		t.Errorf("the empty list has %s", got)
	}
	l.Set([]Block{
		newBlock("user", "", "user", "u1", time.Hour),
		newBlock("pattern", "", "user", "u*", time.Hour),
		newBlock("shop", "shop", "user", "u2", time.Hour),
		newBlock("default", "default", "user", "u3", time.Hour),
		newBlock("address", "", "ip", "198.51.100.7", 2*time.Hour),
		newBlock("network", "", "ip", "198.51.100.0/24", time.Hour),
		newBlock("wide", "", "ip", "10.0.0.0/8", time.Hour),
		newBlock("v6", "", "ip", "2001:db8:1::/48", time.Hour),
		newBlock("key", "", "api_key", "sk_live_1.2", time.Hour),
		newBlock("like an address", "", "api_key", "192.0.2.1", time.Hour),
		newBlock("path", "", "path", "/ex%70ort", time.Hour),
	})
	for _, test := range []struct{ domain, attribute, value, want string }{
		{"", "user", "u1", "user"},
		{"any", "user", "u1", "user"},
		{"", "user", "u12", ""},
		{"", "user", "U1", ""},
		{"", "user", "u*", "pattern"},
		{"", "name", "u1", ""},
		{"shop", "user", "u2", "shop"},
		{"", "user", "u2", ""},
		{"", "user", "u3", "default"},
		{"default", "user", "u3", "default"},
		{"shop", "user", "u3", ""},
		{"", "ip", "198.51.100.7", "address"}, // the one that ends last
		{"", "ip", "198.51.100.8", "network"},
		{"", "ip", "::ffff:198.51.100.8", "network"},
		{"", "ip", "::ffff:198.51.100.8%eth0", "network"},
		{"", "ip", "64:ff9b::198.51.100.8", "network"},
		{"", "ip", "198.51.101.8", ""},
		{"", "ip", "10.255.0.1", "wide"},
		{"", "ip", "2001:DB8:1:0::5", "v6"},
		{"", "ip", "2001:db8:2::5", ""},
		{"", "ip", "198.51.100.0/24", ""},
		{"", "ip", "", ""},
		{"", "ip", "1.2.3", ""},
		{"", "api_key", "sk_live_1.2", "key"},
		{"", "api_key", "192.0.2.1", "like an address"},
		{"", "api_key", "a.b", ""},
		{"", "path", "/export", "path"},
		{"", "path", "/%65xport", "path"},
		{"", "path", "/a/..//export?all", "path"},
		{"", "path", "/export/", "path"},
		{"", "path", "/EXPORT", "path"},
		{"", "path", "/export;x", "path"},
		{"", "path", "/exports", ""},
	} {
		if got := find(test.domain, test.attribute, test.value); got != test.want {
			t.Errorf("%s %s=%s: found %q, want %q", test.domain, test.attribute, test.value, got, test.want)
		}
	}
	l.Set(nil)
	if got := find("", "user", "u1"); got != "" {
		t.Errorf("the emptied list has %s", got)
	}
}

func TestCanonical(t *testing.T) {
	for value, want := range map[string]string{
		"u1": "u1", "198.51.100.7": "198.51.100.7", "198.51.100.7/24": "198.51.100.0/24", "198.51.100.7/32": "198.51.100.7",
		"2001:DB8::1": "2001:db8::1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::5/48": "2001:db8::/48", "1.2.3": "1.2.3", "": "",
	} {
		if got := Canonical(value); got != want {
			t.Errorf("%s is %s, want %s", value, got, want)
		}
	}
}

func TestHolds(t *testing.T) {
	b := newBlock("1", "", "user", "u1", time.Hour)
	if !b.Holds(start) || !b.Holds(start.Add(time.Hour-1)) || b.Holds(start.Add(time.Hour)) {
		t.Error("it does not hold until its end")
	}
	if b.LiftedBy = "me"; b.Holds(start) {
		t.Error("a lifted block holds")
	}
}

func TestValidate(t *testing.T) {
	if good := newBlock("1", "", "user", "u1", time.Hour); good.Validate() != nil {
		t.Error(good.Validate())
	}
	for want, spoil := range map[string]func(*Block){
		"value has 0 bytes":                     func(b *Block) { b.Value = "" },
		"value has 8193 bytes":                  func(b *Block) { b.Value = strings.Repeat("x", 8193) },
		"attribute has 0 bytes":                 func(b *Block) { b.Attribute = "" },
		"reason has 0 bytes":                    func(b *Block) { b.Reason = "" },
		"reason has control characters":         func(b *Block) { b.Reason = "a\nb" },
		"author has control characters":         func(b *Block) { b.Author = "\xff" },
		"must last from 1s to 720h0m0s":         func(b *Block) { b.Until = b.From },
		"it lasts 720h0m1s":                     func(b *Block) { b.Until = b.From.Add(MaxLength + time.Second) },
		"domain has 256 bytes":                  func(b *Block) { b.Domain = strings.Repeat("x", 256) },
		"id has 65 bytes, must have from 1 to ": func(b *Block) { b.ID = strings.Repeat("x", 65) },
	} {
		b := newBlock("1", "", "user", "u1", time.Hour)
		spoil(&b)
		if err := b.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
