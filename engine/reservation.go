package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// A reservation is named by what is needed to conclude it on any node: of each rule that took
// something its number, the subject, the nonce and which override's limits it was, and a keyed checksum, so that
// nobody can make one up.
//
//	version(1) flags(1) { rule(8) subject(16) nonce(8) limits(2) }... checksum(8), in base64url

const (
	reservationVersion = 1
	reservationLocal   = 1 << 0 // of flags: taken of the local store

	onlyLeases = 1 << 15 // of limits: the rest is which override, counted from 1; 0: the rule's own

	headBytes     = 2
	takenBytes    = 8 + 16 + 8 + 2
	checksumBytes = 8
)

// MaxReservationID is how long the name of a reservation can be.
const MaxReservationID = 4 * (headBytes + penstock.MaxGroups*takenBytes + checksumBytes + 2) / 3

// reservation names what the call has taken that can be given back.
func (w *work) reservation(local bool) string {
	var id []byte
	for i := range w.outcome.Groups {
		nonce := w.outcome.Groups[i].Nonce
		if nonce == 0 {
			continue
		}
		if id == nil {
			id = append(make([]byte, 0, headBytes+len(w.outcome.Groups)*takenBytes+checksumBytes), reservationVersion, 0)
			if local {
				id[1] |= reservationLocal
			}
		}
		subject := w.ticket.Groups[i].Subject
		id = binary.BigEndian.AppendUint64(id, w.asked[i].rule.Subjects.Number())
		id = append(id, subject[:]...)
		id = binary.BigEndian.AppendUint64(id, nonce)
		limits := uint16(w.asked[i].override + 1)
		if w.ticket.Groups[i].Reserve == 0 {
			limits |= onlyLeases
		}
		id = binary.BigEndian.AppendUint16(id, limits)
	}
	if id == nil {
		return ""
	}
	sum := checksum(w.snapshot, id)
	return base64.RawURLEncoding.EncodeToString(append(id, sum[:]...))
}

func checksum(s *rules.Snapshot, id []byte) [checksumBytes]byte {
	sum := s.Hasher.Call("reservation\x00" + string(id))
	return [checksumBytes]byte(sum[:])
}

// A taken is what one rule took.
type taken struct {
	rule     *rules.Rule
	limits   []*penstock.Meter // that can give back
	policies []string          // of the limits
	subject  penstock.Subject
	nonce    uint64
}

// pick takes the limits that the rule took the reservation of.
func (t *taken) pick(limits uint16) error {
	meters, policies := t.rule.Limits, t.rule.Policies
	if n := int(limits &^ onlyLeases); n > 0 {
		if n > len(t.rule.Overrides) || t.rule.Overrides[n-1].Unlimited {
			return errors.New("its rule's override is gone")
		}
		meters, policies = t.rule.Overrides[n-1].Limits, t.rule.Overrides[n-1].Policies
	}
	for i, m := range meters {
		if m.Returns() == nil && (limits&onlyLeases == 0 || m.Kind == penstock.KindLeases) {
			t.limits, t.policies = append(t.limits, m), append(t.policies, policies[i])
		}
	}
	if len(t.limits) == 0 {
		return errors.New("its rule's limits are others now")
	}
	return nil
}

func parseReservation(s *rules.Snapshot, text string) (all []taken, local bool, err error) {
	fail := func(why string) ([]taken, bool, error) {
		return nil, false, fmt.Errorf("reservation %.32q: %w: %s", text, penstock.ErrNoReservation, why)
	}
	if len(text) > MaxReservationID {
		return fail("it is too long to be one")
	}
	id, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(id) < headBytes+takenBytes+checksumBytes || (len(id)-headBytes-checksumBytes)%takenBytes != 0 {
		return fail("it does not look like one")
	}
	body, sum := id[:len(id)-checksumBytes], id[len(id)-checksumBytes:]
	if id[0] != reservationVersion || checksum(s, body) != [checksumBytes]byte(sum) {
		return fail("it was not given out here, or under another key_secret")
	}
	for part := body[headBytes:]; len(part) > 0; part = part[takenBytes:] {
		t := taken{subject: penstock.Subject(part[8:24]), nonce: binary.BigEndian.Uint64(part[24:])}
		if t.rule = s.Numbered(binary.BigEndian.Uint64(part)); t.rule == nil {
			return fail("its rule is gone")
		}
		if err := t.pick(binary.BigEndian.Uint16(part[32:])); err != nil {
			return fail(err.Error())
		}
		all = append(all, t)
	}
	return all, body[1]&reservationLocal != 0, nil
}

// Conclude settles, releases or renews what a verdict's call has reserved. Of several rules each is
// concluded by itself; after an error it may be sent again.
func (e *Engine) Conclude(ctx context.Context, c *penstock.Conclusion, v *penstock.Verdict) error {
	s := e.rules.Load()
	v.Reset()
	v.RulesVersion = s.Version
	all, local, err := parseReservation(s, c.Reservation)
	if err != nil {
		return err
	}
	if err := validateConclusion(c); err != nil {
		return err
	}
	store := e.store
	if local {
		store, v.Quality = e.local, penstock.QualityLocal
	}
	settler, ok := store.(penstock.Settler)
	if !ok {
		return fmt.Errorf("%v a reservation: %w: this store cannot", c.Verb, penstock.ErrInvalid)
	}
	v.Allowed, v.Reservation = true, c.Reservation
	var errs []error
	for i := range all {
		if err := e.conclude(ctx, settler, c, &all[i], v); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		v.Allowed = false
		return err
	}
	return nil
}

func validateConclusion(c *penstock.Conclusion) error {
	switch {
	case c.Cost < 0 || c.Cost > penstock.MaxCount:
		return fmt.Errorf("%v a reservation: %w: cost %d is not from 0 to %d", c.Verb, penstock.ErrInvalid, c.Cost, int64(penstock.MaxCount))
	case c.TTL != 0 && (c.TTL < penstock.MinWindow || c.TTL > penstock.MaxReserve):
		return fmt.Errorf("%v a reservation: %w: ttl %v is not from %v to %v", c.Verb, penstock.ErrInvalid, c.TTL, penstock.MinWindow, penstock.MaxReserve)
	}
	return nil
}

func (e *Engine) conclude(ctx context.Context, settler penstock.Settler, c *penstock.Conclusion, t *taken, v *penstock.Verdict) error {
	settlement := penstock.Settlement{Subject: t.subject, Nonce: t.nonce, Verb: c.Verb, Overage: overageOf(t.rule)}
	if e.now != nil {
		settlement.Now = e.now()
	}
	cost := settledCost(t.rule, c)
	for _, m := range t.limits {
		settlement.Charges = append(settlement.Charges, penstock.Charge{Meter: m, Cost: cost})
	}
	if c.Verb == penstock.Renew {
		settlement.TTL = renewedFor(t.rule, c)
	}
	var out penstock.Settled
	if err := settler.Settle(ctx, &settlement, &out); err != nil {
		return fmt.Errorf("%v under rule %q: %w", c.Verb, t.rule.Name, err)
	}
	v.Now = out.Now
	if !out.Allowed {
		v.Allowed, v.Reason = false, penstock.ReasonOverLimit
	}
	for i := range out.Decisions {
		add(v, t.rule, t.policies[i], t.limits[i], &out.Decisions[i])
	}
	return nil
}

// settledCost is the true cost under a rule.
func settledCost(r *rules.Rule, c *penstock.Conclusion) int64 {
	cost := &r.Cost
	switch {
	case cost.Fixed != 0:
		return cost.Fixed
	case c.Response == nil && cost.Max != 0:
		return min(c.Cost, cost.Max)
	case c.Response != nil && cost.ResponseBytes:
		return min(c.Response.Bytes, cost.Max)
	case c.Response != nil && cost.ResponseHeader != "":
		return costFrom(cost, c.Response.Header(cost.ResponseHeader))
	}
	return c.Cost
}

// overageOf is what becomes of a cost above the estimate. Where the rule does not say and the cost
// comes with the response, the work is done already: what fits is charged, and debt if there may be
// any.
func overageOf(r *rules.Rule) penstock.Overage {
	if r.Reserve == 0 && r.Cost.Afterwards() {
		return penstock.OverageDebt
	}
	return r.Overage
}

func renewedFor(r *rules.Rule, c *penstock.Conclusion) time.Duration {
	return cmp.Or(c.TTL, r.Reserve, settleWithin)
}
