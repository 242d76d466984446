package redisstore

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// FuzzReply feeds replies that a script could never have sent: they are refused, or every ticket gets as
// many states as it has charges.
func FuzzReply(f *testing.F) {
	decided := make([]byte, itemSize)
	f.Add([]byte{}, uint8(1), uint8(1))
	f.Add(make([]byte, 7), uint8(1), uint8(1))
	f.Add(append(make([]byte, 7), statusCorrupt), uint8(1), uint8(1))
	f.Add(append(make([]byte, 8), decided...), uint8(1), uint8(1))
	f.Add(append(make([]byte, 8), append(decided, statusClock)...), uint8(2), uint8(1))
	f.Add(append(make([]byte, 7), 9, 9), uint8(2), uint8(0))
	single := append([]byte{statusPassed}, make([]byte, 1+slotSize)...)
	f.Add(append(make([]byte, 7), single...), uint8(1), uint8(1))
	f.Add(append(append(make([]byte, 7), single...), single...), uint8(2), uint8(1))
	f.Add(append(make([]byte, 7), single...), uint8(1), uint8(2))
	f.Fuzz(func(t *testing.T, reply []byte, tickets, charges uint8) {
		calls := make([]*pendingTicket, tickets)
		for i := range calls {
			calls[i] = newCall(ticketOf(int(charges), i%2 == 1))
		}
		if split(string(reply), calls) != nil {
			return
		}
		for _, c := range calls {
			if err := c.unpack(); err == nil && len(c.found) != int(charges) {
				t.Errorf("%d states for %d charges from %q", len(c.found), charges, c.reply)
			}
		}
	})
}

// ticketOf returns a ticket with this many charges, with all guards or none.
func ticketOf(charges int, guarded bool) *storage.Ticket {
	g := storage.Group{}
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Second}.MustCompile()
	for range charges {
		g.Charges = append(g.Charges, algorithm.Charge{Meter: m, Cost: 1, Overdraw: guarded})
	}
	if guarded {
		g.Penalty, g.Dedup, g.Call, g.Reserve = &algorithm.Penalty{}, &algorithm.Dedup{Budget: m}, storage.CallID{1}, time.Second
	}
	return &storage.Ticket{Groups: []storage.Group{g}}
}
