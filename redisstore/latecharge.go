package redisstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// More verbs of amend.lua.
const (
	verbLate   = verbUndo + 1
	verbRefund = verbUndo + 2
)

// ChargeLate charges what was admitted without Redis, in one round trip.
func (s *Store) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	if err := c.Validate(); err != nil {
		return err
	}
	a := amendment{now: c.Now, verb: verbLate, nonce: c.Nonce, length: c.TTL()}
	a.keys.add(appendSubjectKey(nil, s.prefix, c.Subject))
	a.keys.add(appendLateKey(nil, s.prefix, c.Subject, c.Nonce))
	for i := range c.Amounts {
		a.addLate(s.prefix, c.Subject, &c.Amounts[i])
	}
	if _, err := s.run(ctx, &a, 0); err != nil {
		return fmt.Errorf("redis: charge late: %w", err)
	}
	return nil
}

// addLate adds an amount: for a log its entries, each with its cost, and for any other limit a state.
func (a *amendment) addLate(prefix string, who storage.Subject, amount *storage.LateAmount) {
	m := amount.Meter
	if m.Kind != algorithm.KindLog {
		a.meter(prefix, who, m, 0)
		a.body = appendUint56(a.body, int64(amount.State.At))
		a.body = appendUint56(a.body, min(amount.State.Used, m.Most))
		a.body = appendUint56(a.body, min(amount.State.Previous, m.Most))
		return
	}
	a.meter(prefix, who, m, int64(max(0, len(amount.Log)-1)))
	for i := 1; i < len(amount.Log); i++ {
		e := amount.Log[i]
		a.body = appendUint56(a.body, int64(e.At))
		a.body = appendUint48(a.body, min(e.Value-amount.Log[i-1].Value, m.Most))
	}
}

func appendUint48(b []byte, v int64) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(v>>32))
	return binary.BigEndian.AppendUint32(b, uint32(v))
}

// appendLateKey writes the key that a late charge leaves behind, so that it takes effect only once.
func appendLateKey(b []byte, prefix string, s storage.Subject, nonce uint64) []byte {
	b = append(appendSubjectKey(b, prefix, s), 'a')
	return base64.RawURLEncoding.AppendEncode(b, binary.BigEndian.AppendUint64(nil, nonce))
}
