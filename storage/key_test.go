package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A key is the input of a subject's hash.
type key struct {
	domain, rule string
	attributes   []Attribute
}

// encode writes what is hashed: domain, rule, number of names, the names, zeros up to a whole word, all values
// except the last, zeros again, the last value.
func (k key) encode() (b []byte) {
	part := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b = k.encodeRule()
	if len(k.attributes) == 0 {
		return b
	}
	last := len(k.attributes) - 1
	for _, a := range k.attributes[:last] {
		part(a.Value)
	}
	return append(pad(b), k.attributes[last].Value...)
}

// encodeRule writes what the encodings of all keys of the rule begin with.
func (k key) encodeRule() (b []byte) {
	part := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	part(k.domain)
	part(k.rule)
	b = binary.AppendUvarint(b, uint64(len(k.attributes)))
	for _, a := range k.attributes {
		part(a.Name)
	}
	return pad(b)
}

func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&7)...) }

// decodeKey reverses encode; its existence proves that no two keys are encoded alike.
func decodeKey(b []byte) (k key) {
	whole := len(b)
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		b = b[size:]
		return n
	}
	part := func() string {
		n := number()
		s := string(b[:n])
		b = b[n:]
		return s
	}
	skip := func() { b = b[-(whole-len(b))&7:] }
	k.domain, k.rule = part(), part()
	k.attributes = make([]Attribute, number())
	for i := range k.attributes {
		k.attributes[i].Name = part()
	}
	skip()
	if len(k.attributes) == 0 {
		return k
	}
	last := len(k.attributes) - 1
	for i := range last {
		k.attributes[i].Value = part()
	}
	skip()
	k.attributes[last].Value = string(b)
	return k
}

func (k key) equal(other key) bool {
	return k.domain == other.domain && k.rule == other.rule && slices.Equal(k.attributes, other.attributes)
}

func (k key) subject(h Hasher) Subject { return h.Subject(k.domain, k.rule, k.attributes...) }

// inTwoSteps makes the subject from the rule's hash and the values.
func (k key) inTwoSteps(h Hasher) Subject {
	var names, values []string
	for _, a := range k.attributes {
		names, values = append(names, a.Name), append(values, a.Value)
	}
	rule := h.Rule(k.domain, k.rule, names...)
	return rule.Subject(values...)
}

// FuzzKeyEncode: a subject is the hash of an encoding that can be read back, so two keys share a
// subject only if they are the same.
func FuzzKeyEncode(f *testing.F) {
	f.Add("s3cret", "shop", "login", "user", "ann", "shop", "login", "use", "rann")
	f.Add("", "", "", "", "", "", "", "a", "")
	f.Add("k", "\x01a", "\x00", "n", "v", "a", "\x01\x00", "n", "v")
	f.Add("k", strings.Repeat("d", 127), "r", "ip", "::1", strings.Repeat("d", 128), "r", "ip", "::1")
	f.Fuzz(func(t *testing.T, secret, d1, r1, n1, v1, d2, r2, n2, v2 string) {
		one, two := Attribute{n1, v1}, Attribute{n2, v2}
		checkKeys(t, NewHasher(secret), []key{
			{d1, r1, []Attribute{one}},
			{d2, r2, []Attribute{two}},
			{d1, r1, []Attribute{one, two}},
			{d1, r1, []Attribute{two, one}},
			{d1, r1, []Attribute{{n1, n2}, {v1, v2}}},
			{d1, r1, nil},
		})
	})
}

// Lengths of one, two and three bytes.
func TestLongKeys(t *testing.T) {
	var keys []key
	for _, n := range []int{0, 1, 127, 128, 129, 16_383, 16_384, 70_000} {
		long := strings.Repeat("x", n)
		keys = append(keys, key{"d", "r", []Attribute{{"n", long}}}, key{long + "d", "r", nil})
	}
	checkKeys(t, NewHasher("k"), keys)
}

func checkKeys(t *testing.T, h Hasher, keys []key) {
	t.Helper()
	for i, k := range keys {
		encoded := k.encode()
		if back := decodeKey(encoded); !back.equal(k) {
			t.Fatalf("%.200q reads back as %.200q", k, back)
		}
		hash := func(b []byte) [16]byte { return referenceSip(1, 3, h.subjects[0], h.subjects[1], b) }
		subject, sum, tag := k.subject(h), hash(encoded), hash(k.encodeRule())
		if !bytes.Equal(subject[4:], sum[4:]) || !bytes.Equal(subject[:4], tag[:4]) {
			t.Fatalf("the subject of %.200q is not the hash of its encoding, behind that of its rule", k)
		}
		if subject != k.inTwoSteps(h) {
			t.Fatalf("the subject of %.200q is another by way of its rule", k)
		}
		for _, other := range keys[:i] {
			if (other.subject(h) == subject) != other.equal(k) {
				t.Fatalf("%.200q and %.200q share a subject", k, other)
			}
		}
	}
}

func TestSubjectsDiffer(t *testing.T) {
	h := NewHasher("secret")
	seen := map[Subject]string{}
	for name, s := range map[string]Subject{
		"plain":              h.Subject("d", "r", Attribute{"user", "ann"}),
		"other secret":       NewHasher("Secret").Subject("d", "r", Attribute{"user", "ann"}),
		"no secret":          NewHasher("").Subject("d", "r", Attribute{"user", "ann"}),
		"shifted boundary":   h.Subject("d", "r", Attribute{"usera", "nn"}),
		"domain into rule":   h.Subject("", "dr", Attribute{"user", "ann"}),
		"other order":        h.Subject("d", "r", Attribute{"ann", "user"}),
		"no attribute":       h.Subject("d", "r"),
		"an empty attribute": h.Subject("d", "r", Attribute{}),
		"two attributes":     h.Subject("d", "r", Attribute{"user", "ann"}, Attribute{"ip", "::1"}),
		"two, swapped":       h.Subject("d", "r", Attribute{"ip", "::1"}, Attribute{"user", "ann"}),
	} {
		if other, ok := seen[s]; ok {
			t.Errorf("%s and %s share the subject %v", name, other, s)
		}
		seen[s] = name
	}
}

// All subjects of a rule begin with its tag, and those of other rules with another.
func TestRuleTag(t *testing.T) {
	h := NewHasher("secret")
	rule := h.Rule("shop", "login", "user", "ip")
	for _, user := range []string{"", "ann", strings.Repeat("long", 100)} {
		s := rule.Subject(user, "::1")
		if s.Tag() != rule.Tag() || RuleTag(s[:4]) != rule.Tag() {
			t.Errorf("the subject of %.10q has the tag %x, its rule %x", user, s.Tag(), rule.Tag())
		}
	}
	seen := map[RuleTag]string{rule.Tag(): "shop login user ip"}
	for name, other := range map[string]RuleHasher{
		"another rule":   h.Rule("shop", "logout", "user", "ip"),
		"another domain": h.Rule("shops", "login", "user", "ip"),
		"another key":    h.Rule("shop", "login", "user"),
		"another order":  h.Rule("shop", "login", "ip", "user"),
		"no key":         h.Rule("shop", "login"),
		"another secret": NewHasher("Secret").Rule("shop", "login", "user", "ip"),
	} {
		if same, ok := seen[other.Tag()]; ok {
			t.Errorf("%s has the tag of %s", name, same)
		}
		seen[other.Tag()] = name
	}
}

// Rules that differ in any input of their subjects have different numbers.
func TestRuleNumber(t *testing.T) {
	h := NewHasher("secret")
	seen := map[uint64]string{}
	for name, r := range map[string]RuleHasher{
		"rule": h.Rule("shop", "search", "user"), "domain": h.Rule("store", "search", "user"), "name": h.Rule("shop", "find", "user"),
		"key": h.Rule("shop", "search", "ip"), "longer key": h.Rule("shop", "search", "user", "ip"), "no key": h.Rule("shop", "search"),
		"secret": NewHasher("other").Rule("shop", "search", "user"),
	} {
		n := r.Number()
		if other, taken := seen[n]; taken {
			t.Errorf("%s and %s have the number %x", name, other, n)
		}
		seen[n] = name
	}
	again := h.Rule("shop", "search", "user")
	if seen[again.Number()] != "rule" {
		t.Error("the same rule has another number")
	}
}

// A request's ID depends on every byte that the client sent and on the secret, and is never the zero ID,
// which means none: it is odd.
func TestCallID(t *testing.T) {
	h := NewHasher("secret")
	seen := map[CallID]string{}
	ids := []string{"", "a", "b", "ab", "a\x00", "\x00a", "call", strings.Repeat("x", 127), strings.Repeat("x", 128), strings.Repeat("x", 1<<16)}
	for i := range 1000 {
		ids = append(ids, "call "+strconv.Itoa(i))
	}
	for _, id := range ids {
		call := h.Call(id)
		if same, ok := seen[call]; ok || call[0]&1 == 0 {
			t.Errorf("%.20q is called %x, as is %.20q", id, call, same)
		}
		if seen[call] = id; call != h.Call(id) || call == NewHasher("Secret").Call(id) {
			t.Errorf("%.20q is called by another name each time, or with any secret", id)
		}
	}
}

// Nodes of different versions share a store: the key derivation must never change.
func TestHasherKey(t *testing.T) {
	for _, secret := range []string{"a", strings.Repeat("long ", 1000)} {
		sum := sha256.Sum256([]byte(secret))
		word := binary.LittleEndian.Uint64
		want := Hasher{[2]uint64{word(sum[0:]), word(sum[8:])}, [2]uint64{word(sum[16:]), word(sum[24:])}}
		if NewHasher(secret) != want {
			t.Errorf("the keys of %.10q are not the halves of its SHA-256", secret)
		}
	}
}

func TestSubjectString(t *testing.T) {
	s := NewHasher("x").Subject("d", "r")
	back, err := base64.RawURLEncoding.DecodeString(s.String())
	if err != nil || !bytes.Equal(back, s[:]) || len(s.String()) != 22 {
		t.Errorf("%q reads back as %x, %v; want %x", s, back, err, s[:])
	}
	if strings.ContainsAny(s.String(), "{}:+/=") {
		t.Errorf("%q does not stand unescaped in a key", s)
	}
}

func TestSubjectDoesNotAllocate(t *testing.T) {
	h := NewHasher("secret")
	user := strings.Repeat("u", 40)
	if n := testing.AllocsPerRun(100, func() {
		_ = h.Subject("shop", "login", Attribute{"user", user}, Attribute{"ip", "2001:db8::1"})
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	rule := h.Rule("shop", "login", "user", "ip")
	if n := testing.AllocsPerRun(100, func() { _ = rule.Subject(user, "2001:db8::1") }); n != 0 {
		t.Errorf("by way of its rule: %v allocations, want none", n)
	}
}
