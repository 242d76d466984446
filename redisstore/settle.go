package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// More verbs of amend.lua, after those of a settlement.
const (
	verbBan   = byte(storage.Renew) + 1
	verbReset = byte(storage.Renew) + 2
	verbUndo  = byte(storage.Renew) + 3
)

// strikes, as the record of a settlement, says that its penalty follows the charges.
const strikes = 1

// The statuses of an amendment, besides those of a ticket.
const (
	statusUnknown = 3
	statusClosed  = 4
)

// Settle closes or renews a reservation, or permits, in one round trip. Except for a refund, it may be sent
// again after an error: it takes effect once.
func (s *Store) Settle(ctx context.Context, t *storage.Settlement, out *storage.SettleOutcome) error {
	if err := t.Validate(); err != nil {
		return err
	}
	a := amendment{now: t.Now, verb: byte(t.Verb), overage: t.Overage, nonce: t.Nonce}
	switch {
	case t.Verb == storage.Renew:
		a.length = t.TTL.Microseconds()
	case t.Lost:
		a.length = storage.LostFor.Microseconds()
	}
	a.keys.add(appendSubjectKey(nil, s.prefix, t.Subject))
	a.keys.add(appendReservationsKey(nil, s.prefix, t.Subject))
	for i, c := range t.Charges {
		cost := t.Cost(i)
		if t.Verb == storage.Refund {
			a.verb, cost = verbRefund, c.Meter.RefundedCost(cost)
		}
		a.meter(s.prefix, t.Subject, c.Meter, cost)
	}
	if t.Strike != nil {
		a.record = strikes
		a.body = appendPenalty(a.body, t.Strike)
	}
	reply, err := s.run(ctx, &a, len(t.Charges))
	if err != nil {
		return fmt.Errorf("redis: %v reservation: %w", t.Verb, err)
	}
	reply.settle(t, out)
	return nil
}

// Ban bans a subject, or lifts its ban and announces that to all nodes.
func (s *Store) Ban(ctx context.Context, b *storage.Ban) (until algorithm.Instant, err error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	a := amendment{now: b.Now, verb: verbBan, length: b.Length.Microseconds()}
	a.keys.add(appendSubjectKey(nil, s.prefix, b.Subject))
	a.charge(0, formPenal, 0)
	a.body = appendPenalty(a.body, b.Penalty)
	reply, err := s.run(ctx, &a, 0)
	if err == nil && b.Length == 0 {
		err = s.announce(ctx, ClearEvent{Subject: b.Subject, At: reply.now, Lift: true})
	}
	if err != nil {
		return 0, fmt.Errorf("redis: ban: %w", err)
	}
	return reply.until, nil
}

// An amendment is a request for amend.lua.
type amendment struct {
	now     algorithm.Instant
	verb    byte
	overage algorithm.Overage
	nonce   uint64
	hold    holdID
	length  int64 // µs, of a renewal, a ban or a hold, or how long to remember a lost ticket
	record  int   // the number of its key, if a record is to be forgotten; of a settlement, strikes

	keys    keyList
	charges byte
	body    []byte
}

type keyList []string

func (k *keyList) add(key []byte) int {
	*k = append(*k, string(key))
	return len(*k)
}

// charge begins a charge. Its limit must follow in the body.
func (a *amendment) charge(cost int64, form byte, list int) {
	a.charges++
	a.body = binary.BigEndian.AppendUint16(a.body, uint16(cost>>32))
	a.body = binary.BigEndian.AppendUint32(a.body, uint32(cost))
	a.body = append(a.body, form)
	a.body = binary.BigEndian.AppendUint16(a.body, uint16(list))
}

// meter adds a charge of the subject. The first two keys must already be there.
func (a *amendment) meter(prefix string, who storage.Subject, m *algorithm.Meter, cost int64) {
	list := 0
	if !m.Kind.Fixed() {
		list = a.keys.add(appendListKey(nil, prefix, who, m)) - 2
	}
	a.charge(cost, formOf(m.Kind), list)
	a.body = appendLimit(a.body, m, a.around())
}

// around returns the instant around which to look up calendar periods.
func (a *amendment) around() algorithm.Instant {
	if a.now != 0 {
		return a.now
	}
	return algorithm.InstantOf(time.Now())
}

func (a *amendment) pack() string {
	b := appendUint56(nil, int64(a.now))
	b = append(b, a.verb, byte(a.overage))
	b = binary.BigEndian.AppendUint64(b, a.nonce)
	b = append(b, a.hold[:]...)
	b = appendUint56(b, a.length)
	b = append(b, a.charges)
	b = binary.BigEndian.AppendUint16(b, uint16(a.record))
	return string(append(b, a.body...))
}

// An amendReply is the script's reply.
type amendReply struct {
	allowed, again bool
	now, until     algorithm.Instant
	charges        string // items
}

const (
	amendedSize = 1 + 1 + 2*7 // status, allowed and again, now, until
	chargeSize  = itemSize + amountSize
)

// run sends an amendment and reads the reply, which covers this many charges.
func (s *Store) run(ctx context.Context, a *amendment, charges int) (r amendReply, err error) {
	if err := s.checkConnected(); err != nil {
		return r, err
	}
	conn, script := s.conns.Load(), s.amend // it may still be running after this returns
	ctx, cancel := s.withLimit(ctx, conn.pipes)
	defer cancel()
	reply, err := s.await(ctx, func(ctx context.Context) (string, error) {
		return s.eval(ctx, conn.pipelined, &script, a.keys, a.pack())
	})
	if err != nil {
		return r, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	if len(reply) == 1 {
		switch reply[0] {
		case statusUnknown:
			return r, storage.ErrNoReservation
		case statusClosed:
			return r, storage.ErrClosed
		default:
			return r, fmt.Errorf("%w: %w", storage.ErrUnavailable, errStatus(reply))
		}
	}
	if len(reply) != amendedSize+charges*chargeSize || reply[0] != statusDecided {
		return r, fmt.Errorf("%w: %w", storage.ErrUnavailable, errReply(reply))
	}
	return amendReply{
		allowed: reply[1]&1 != 0,
		again:   reply[1]&2 != 0,
		now:     algorithm.Instant(uint56(reply[2:])),
		until:   algorithm.Instant(uint56(reply[9:])),
		charges: reply[amendedSize:],
	}, nil
}

// settle fills the outcome of a settlement.
func (r *amendReply) settle(t *storage.Settlement, out *storage.SettleOutcome) {
	out.Now, out.Allowed, out.Again, out.Until, out.BannedUntil = r.now, r.allowed, r.again, r.until, 0
	if t.Verb == storage.Settle {
		out.Until, out.BannedUntil = 0, r.until
	}
	out.Decisions = out.Decisions[:0]
	for i, c := range t.Charges {
		b := r.charges[i*chargeSize:]
		charged := unpackItem(b)
		more := unpackAmount(b[itemSize:]) // 0 unless it was refused
		out.Decisions = append(out.Decisions, c.Meter.ReportSettled(charged.state(c.Meter), r.now, more, charged.passes))
	}
}

// await returns when the context ends. The function it runs continues, because others may wait for the same
// connection.
func (s *Store) await(ctx context.Context, do func(context.Context) (string, error)) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text, err := do(context.WithoutCancel(ctx))
		done <- answer{text, err}
	}()
	select {
	case a := <-done:
		return a.text, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-done: // it finished in the meantime
		return a.text, a.err
	default:
		return "", ctx.Err()
	}
}
