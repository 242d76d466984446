package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

func TestBanValidate(t *testing.T) {
	p := penalty(t, threeStrikes)
	for _, test := range []struct {
		ban  Ban
		want string
	}{
		{Ban{Penalty: p}, ""},
		{Ban{Penalty: p, Length: algorithm.MinWindow}, ""},
		{Ban{Penalty: p, Length: algorithm.MaxWindow, Now: algorithm.MaxInstant}, ""},
		{Ban{}, "invalid ban: the rule has no penalty"},
		{Ban{Penalty: p, Now: -1}, "invalid ban: now -1 is not from 0 to 4503599627370495 µs"},
		{Ban{Penalty: p, Now: algorithm.MaxInstant + 1}, "invalid ban: now 4503599627370496 is not from 0 to 4503599627370495 µs"},
		{Ban{Penalty: p, Length: algorithm.MinWindow - 1}, "invalid ban: for 999.999µs, must be from 1ms to 8784h0m0s, or 0 to lift it"},
		{Ban{Penalty: p, Length: algorithm.MaxWindow + 1}, "invalid ban: for 8784h0m0.000000001s, must be from 1ms to 8784h0m0s, or 0 to lift it"},
		{Ban{Penalty: p, Length: -time.Hour}, "invalid ban: for -1h0m0s, must be from 1ms to 8784h0m0s, or 0 to lift it"},
	} {
		expect(t, test.ban.Validate(), test.want)
	}
}

// expect checks that an error wraps ErrInvalid and has the given text, or that there is none.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (!errors.Is(err, algorithm.ErrInvalid) || err.Error() != want):
		t.Errorf("error\n%v\nwant one that is ErrInvalid\n%s", err, want)
	}
}
