package engine_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/quick"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

const placesAndTokens = `
rules:
  - {name: places, key: [], limits: [{concurrent: 5, ttl: 30s}]}
  - {name: tokens, key: [], reserve: {ttl: 60s}, limits: [{rate: 100/1h, algorithm: fixed_window}]}
`

// reserved returns an engine and the name of what a request has reserved there.
func reserved(t testing.TB) (*engine.Engine, string) {
	t.Helper()
	e := newEngine(t, placesAndTokens, engine.Options{Now: func() penstock.Instant { return beginning }})
	var v penstock.Verdict
	if err := e.Decide(t.Context(), &penstock.Call{Cost: 10, Reserve: true}, &v); err != nil || v.Reservation == "" {
		t.Fatal("nothing was reserved: ", err)
	}
	return e, v.Reservation
}

// holds returns how many permits and tokens are taken.
func holds(t testing.TB, e *engine.Engine) (places, tokens int64) {
	t.Helper()
	var v penstock.Verdict
	if err := e.Decide(t.Context(), &penstock.Call{}, &v); err != nil || len(v.Limits) != 2 {
		t.Fatal(err, v)
	}
	return v.Limits[0].Used, v.Limits[1].Used
}

func release(t testing.TB, e *engine.Engine, reservation string) error {
	t.Helper()
	var v penstock.Verdict
	err := e.Conclude(t.Context(), &penstock.Conclusion{Reservation: reservation, Verb: penstock.Release}, &v)
	if v.Allowed != (err == nil) {
		t.Errorf("%v, but the verdict says %v", err, v.Allowed)
	}
	return err
}

// A name that was changed in any bit, or cut, or made longer, names nothing.
func TestForgedReservation(t *testing.T) {
	e, name := reserved(t)
	id, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil {
		t.Fatal(err)
	}
	forge := func(id []byte) {
		t.Helper()
		if err := release(t, e, base64.RawURLEncoding.EncodeToString(id)); !errors.Is(err, penstock.ErrNoReservation) {
			t.Errorf("%x: %v", id, err)
		}
	}
	for i := range len(id) * 8 {
		id[i/8] ^= 1 << (i % 8)
		forge(id)
		id[i/8] ^= 1 << (i % 8)
	}
	for n := range id {
		forge(id[:n])
	}
	forge(append(id, 0))
	forge(append(id, id...))
	for _, text := range []string{"", " ", name + "=", name + "\n", "%", strings.Repeat("A", engine.MaxReservationID), strings.Repeat("A", 1<<20)} {
		if err := release(t, e, text); !errors.Is(err, penstock.ErrNoReservation) || len(err.Error()) > 300 {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if places, tokens := holds(t, e); places != 1 || tokens != 10 {
		t.Errorf("%d places and %d tokens are left of 1 and 10", places, tokens)
	}
	if err := release(t, e, name); err != nil {
		t.Error(err)
	}
	if places, tokens := holds(t, e); places != 0 || tokens != 0 {
		t.Errorf("%d places and %d tokens were not given back", places, tokens)
	}
}

// A reservation named by a later version is not misread.
func TestReservationOfAnotherVersion(t *testing.T) {
	e, name := reserved(t)
	id, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(version byte) string {
		body := append([]byte{version}, id[1:len(id)-8]...)
		sum := compile(t, placesAndTokens).Hasher.Call("reservation\x00" + string(body))
		return base64.RawURLEncoding.EncodeToString(append(body, sum[:8]...))
	}
	if err := release(t, e, signed(id[0]+2)); !errors.Is(err, penstock.ErrNoReservation) {
		t.Errorf("the next version: %v", err)
	}
	if signed(id[0]) != name {
		t.Error("the test does not know how names are signed")
	}
}

// Any text sent as a name is an error, not a panic.
func TestAnyReservation(t *testing.T) {
	e, _ := reserved(t)
	none := func(id []byte, text string) bool {
		return errors.Is(release(t, e, base64.RawURLEncoding.EncodeToString(id)), penstock.ErrNoReservation) &&
			errors.Is(release(t, e, text), penstock.ErrNoReservation)
	}
	if err := quick.Check(none, nil); err != nil {
		t.Error(err)
	}
}

// Nodes that share a store and its secret can conclude each other's reservations; others cannot.
func TestReservationOfAnotherNode(t *testing.T) {
	store := newMemory(t)
	node := func(secret string) *engine.Engine {
		s := compileWith(t, placesAndTokens, rules.Options{Secret: secret})
		return newEngine(t, "", engine.Options{Store: store, Rules: engine.Fixed(s), Now: func() penstock.Instant { return beginning }})
	}
	a, b, stranger := node("ours"), node("ours"), node("theirs")
	var v penstock.Verdict
	if err := a.Decide(t.Context(), &penstock.Call{Cost: 10, Reserve: true}, &v); err != nil {
		t.Fatal(err)
	}
	if err := release(t, stranger, v.Reservation); !errors.Is(err, penstock.ErrNoReservation) {
		t.Errorf("with another secret: %v", err)
	}
	if err := release(t, b, v.Reservation); err != nil {
		t.Error(err)
	}
	if places, tokens := holds(t, a); places != 0 || tokens != 0 {
		t.Errorf("%d places and %d tokens were not given back", places, tokens)
	}
}

// The longest name there can be is accepted.
func TestLongestReservation(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range storage.MaxGroups {
		text.WriteString("  - {name: places-" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ", key: [], reserve: {ttl: 60s}, charge_if: status == 401, limits: [{concurrent: 5, ttl: 30s}")
		for k := range rules.MaxDataLimits {
			fmt.Fprintf(&text, `, {rate: "{quota}/%dh", max: %d, default: 1}`, k+1, 100*(k+1))
		}
		text.WriteString("]}\n")
	}
	e := newEngine(t, text.String(), engine.Options{Now: func() penstock.Instant { return beginning }})
	var v penstock.Verdict
	call := &penstock.Call{Cost: 1, Reserve: true, Attributes: []penstock.Attribute{{Name: "quota", Value: "7"}}}
	if err := e.Decide(t.Context(), call, &v); err != nil || len(v.Reservation) != engine.MaxReservationID {
		t.Fatalf("%v: a name of %d bytes; the longest has %d", err, len(v.Reservation), engine.MaxReservationID)
	}
	if err := e.Conclude(t.Context(), &penstock.Conclusion{Reservation: v.Reservation, Verb: penstock.Release}, &v); err != nil || len(v.Limits) != storage.MaxGroups*(1+rules.MaxDataLimits) {
		t.Errorf("%v: %d limits", err, len(v.Limits))
	}
	for i := range v.Limits {
		if v.Limits[i].Used != 0 {
			t.Errorf("a place of %s is still taken", v.Limits[i].Rule)
		}
	}
}

// A response without the expected numbers does not panic: the default is charged.
func TestResponseWithoutNumbers(t *testing.T) {
	e := newEngine(t, `
rules:
  - {name: header, match: {path: /header}, key: [], cost: {response_header: X-Cost, default: 3}, limits: [{rate: 50/1h, algorithm: fixed_window}]}
  - {name: bytes, match: {path: /bytes}, key: [], cost: {response_bytes: true, default: 4}, limits: [{rate: 50/1h, algorithm: fixed_window}]}
`, engine.Options{Now: func() penstock.Instant { return beginning }})
	for path, want := range map[string]int64{"/header": 3, "/bytes": 4} {
		var v penstock.Verdict
		if err := e.Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: attributes("path", path)}, &v); err != nil {
			t.Fatal(err)
		}
		c := penstock.Conclusion{Reservation: v.Reservation, Response: &penstock.Response{Bytes: -1}}
		if err := e.Conclude(t.Context(), &c, &v); err != nil || v.Decision.Used != want {
			t.Errorf("%s: %v: %d are used, not %d", path, err, v.Decision.Used, want)
		}
	}
}
