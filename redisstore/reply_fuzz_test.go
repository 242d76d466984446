package redisstore

import (
	"testing"

	"github.com/penstock-io/penstock"
)

// FuzzReply feeds what a script could never have sent: it is refused, or every ticket gets as many
// states as it has charges.
func FuzzReply(f *testing.F) {
	decided := make([]byte, chargeSize)
	f.Add([]byte{}, uint8(1), uint8(1))
	f.Add(make([]byte, 7), uint8(1), uint8(1))
	f.Add(append(make([]byte, 7), statusCorrupt), uint8(1), uint8(1))
	f.Add(append(make([]byte, 8), decided...), uint8(1), uint8(1))
	f.Add(append(make([]byte, 8), append(decided, statusClock)...), uint8(2), uint8(1))
	f.Add(append(make([]byte, 7), 9, 9), uint8(2), uint8(0))
	f.Fuzz(func(t *testing.T, reply []byte, tickets, charges uint8) {
		calls := make([]*call, tickets)
		for i := range calls {
			calls[i] = &call{charges: int(charges)}
		}
		if split(string(reply), calls) != nil {
			return
		}
		for _, c := range calls {
			found, err := unpack(c.reply, make([]penstock.Found, 0, 1))
			if err == nil && len(found) != int(charges) {
				t.Errorf("%d states for %d charges from %q", len(found), charges, c.reply)
			}
		}
	})
}
