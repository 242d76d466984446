package nodebus

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/ruleredis"
)

// An answer is opened only for those who wait for it, once it is clear that they do; nothing of a message can be
// changed.
func TestSealed(t *testing.T) {
	expected, calls := map[string]bool{"A 1": true}, 0
	newBus := func(id string) *Bus {
		b, err := New(Options{
			Redis: ruleredis.Options{Addresses: []string{"127.0.0.1:1"}}, Secret: strings.Repeat("secret", 8), ID: id,
			Receive: func(string, []byte) {}, Changed: func(error) {},
			Expects: func(from, number string) bool {
				calls++
				return expected[from+" "+number]
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	a, b := newBus("A"), newBus("B")
	large := bytes.Repeat([]byte("x"), MaxMessage)
	for _, c := range []struct {
		answers string
		message []byte
		err     error
	}{{"", []byte("question"), nil}, {"1", large, nil}, {"2", large, errUnasked}} {
		sealed, err := a.sealed("channel", c.answers, c.message)
		if err != nil {
			t.Fatal(err)
		}
		from, got, err := b.unsealed("channel", sealed)
		if !errors.Is(err, c.err) || err == nil && (from != "A" || !bytes.Equal(got, c.message)) {
			t.Errorf("answer %q: from %q, %d bytes, error %v", c.answers, from, len(got), err)
		}
		if _, _, err := b.unsealed("other", sealed); err == nil {
			t.Errorf("answer %q is opened on another channel", c.answers)
		}
		for i := range 20 {
			changed := []byte(sealed)
			changed[i] ^= 1
			if _, _, err := b.unsealed("channel", string(changed)); err == nil {
				t.Errorf("answer %q is opened with another byte %d", c.answers, i)
			}
		}
	}
	if _, err := a.sealed("channel", "", make([]byte, maxUnasked+1)); err == nil {
		t.Error("a long question is sent")
	}
	before := calls
	delete(expected, "A 1")
	if _, _, err := b.unsealed("channel", "\x02\x01A\x011 what is no message"); !errors.Is(err, errUnasked) || calls != before+1 {
		t.Errorf("an answer that nobody waits for: %v", err)
	}
	for _, short := range []string{"", "\x02", "\x02\x05A", "\x02\x01A", "\x02\x01A\x05", "\x02\x41" + strings.Repeat("a", 200), "\x01\x01A\x00"} {
		if _, _, err := b.unsealed("channel", short); err == nil {
			t.Errorf("%q is opened", short)
		}
	}
}
