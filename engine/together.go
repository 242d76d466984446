package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// DecideTogether decides several requests atomically, such as the parts of one request. There is one verdict
// and one error for each request, in their order. If every verdict allows, all pass and are charged; if one
// denies, none is charged. Each verdict is about its own request: next to one that denies it may allow, which
// means that this request was not the cause.
//
// Requests under the same rule with the same key are charged there as one, with the sum of their costs. An invalid
// request denies all, and so does a sum above [algorithm.MaxCount]. What does not fit into one ticket is decided
// one by one, as by DecideEach: more than [storage.MaxGroups] rules in total, or several requests of one client
// under a rule that takes reservations or permits, or recognises duplicates.
func (e *Engine) DecideTogether(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	verdicts, errs = verdicts[:len(calls)], errs[:len(calls)] // panics here rather than halfway
	p := newAtomicBatch(e, len(calls))
	defer p.leave(e)
	s := e.rules.Load()
	for i := range p.members {
		m := &p.members[i]
		m.call, m.verdict = &calls[i], &verdicts[i]
		settled, err := e.prepare(s, m.call, m.verdict, m.work)
		p.enter(m, settled, err)
	}
	switch {
	case p.invalid:
		p.refuse(e, fmt.Errorf("%w call: another request of the group is invalid", penstock.ErrInvalid))
	case !p.join():
		e.DecideEach(ctx, calls, verdicts, errs)
		return
	case p.tooCostly != nil:
		p.refuse(e, fmt.Errorf("%w call: the requests of one client under rule %q cost more than %d together", penstock.ErrInvalid, p.tooCostly.Name, int64(algorithm.MaxCount)))
	default:
		p.decide(ctx, e)
	}
	for i := range p.members {
		m := &p.members[i]
		errs[i] = m.err
		e.tellObserver(m.call, m.verdict, m.work, m.err)
	}
}

// An atomicBatch is a set of requests that are decided together, and their combined ticket. It is reused.
type atomicBatch struct {
	members []member
	apart   bool // none of their groups are added up
	invalid bool // one of them is invalid
	denied  bool // one of them is denied without the store

	tooCostly *rules.Rule // the sum of what it charges one client is above what any limit can hold
	turn      storage.BatchItem
	ends      []int // of the decisions of the ticket's groups
}

// A member is one request of a party.
type member struct {
	call    *penstock.Call
	verdict *penstock.Verdict
	err     error
	work    *workspace
	asks    bool  // whether it asks the store
	groups  []int // the groups of the party's ticket that its own became
}

func newAtomicBatch(e *Engine, members int) *atomicBatch {
	p := e.parties.Get().(*atomicBatch)
	p.members = slices.Grow(p.members[:0], members)[:members]
	p.apart, p.invalid, p.denied, p.tooCostly = false, false, false, nil
	for i := range p.members {
		p.members[i] = member{work: e.works.Get().(*workspace), groups: p.members[i].groups}
	}
	return p
}

// enter adds a prepared member.
func (p *atomicBatch) enter(m *member, settled bool, err error) {
	m.asks, m.err = !settled, err
	p.invalid = p.invalid || err != nil
	p.denied = p.denied || settled && !m.verdict.Allowed
}

func (p *atomicBatch) leave(e *Engine) {
	for i := range p.members {
		m := &p.members[i]
		e.works.Put(m.work)
		*m = member{groups: m.groups}
	}
	e.parties.Put(p)
}

// refuse denies all, with an error for those that have none of their own.
func (p *atomicBatch) refuse(e *Engine, err error) {
	for i := range p.members {
		m := &p.members[i]
		if v := m.verdict; m.err == nil {
			version := v.RulesVersion
			v.Reset()
			v.RulesVersion, v.Now = version, e.instant()
			m.err = err
		}
	}
}

// join combines the tickets of the members that ask the store into one, and reports whether that is possible.
func (p *atomicBatch) join() bool {
	t := &p.turn.Ticket
	*t = storage.Ticket{Denied: p.denied, MaxDelay: math.MaxInt64, Groups: t.Groups[:0]}
	for i := range p.members {
		m := &p.members[i]
		if !m.asks {
			continue
		}
		own := &m.work.turn.Ticket
		t.Now, t.MaxDelay, t.Nonce = own.Now, min(t.MaxDelay, own.MaxDelay), max(t.Nonce, own.Nonce)
		m.groups = m.groups[:0]
		for k := range own.Groups {
			m.groups = append(m.groups, p.hold(&own.Groups[k], m.work.asked[k].rule))
		}
	}
	return !p.needsStore() || p.tooCostly != nil || t.Validate() == nil
}

func (p *atomicBatch) needsStore() bool { return len(p.turn.Ticket.Groups) > 0 }

// hold adds a group to the ticket, and returns its index there.
func (p *atomicBatch) hold(g *storage.Group, r *rules.Rule) int {
	t := &p.turn.Ticket
	for i := range t.Groups {
		if have := &t.Groups[i]; !p.apart && addable(have, g) {
			have.Charges = slices.Clone(have.Charges) // the charges belong to a member
			for j := range have.Charges {
				have.Charges[j].Cost += g.Charges[j].Cost
				if have.Charges[j].Cost > algorithm.MaxCount {
					p.tooCostly = r
				}
			}
			return i
		}
	}
	t.Groups = append(t.Groups, *g)
	return len(t.Groups) - 1
}

// addable reports whether two groups can be charged as one, with the sum of their costs.
func addable(a, b *storage.Group) bool {
	return a.Subject == b.Subject && !a.Names() && !b.Names() && !a.Remembers() && !b.Remembers() &&
		slices.EqualFunc(a.Charges, b.Charges, func(a, b algorithm.Charge) bool { return a.Meter == b.Meter })
}

// decide asks the store, or follows the rules' failure policies if it does not answer.
func (p *atomicBatch) decide(ctx context.Context, e *Engine) {
	if !p.needsStore() {
		return
	}
	err := e.takeShared(ctx, &p.turn)
	if err == nil {
		p.share()
	}
	for i := range p.members {
		if m := &p.members[i]; m.asks {
			if m.err = err; err == nil || errors.Is(err, penstock.ErrInvalid) {
				_ = e.finish(ctx, m.verdict, m.work, err)
			}
		}
	}
	switch {
	case err == nil:
		p.clear(ctx, e, e.store)
	case errors.Is(err, storage.ErrFull):
		p.full(e)
	case hasLeft(ctx):
		e.releaseLost(&p.turn.Ticket, err)
		p.cancel(e)
	case !errors.Is(err, penstock.ErrInvalid):
		e.releaseLost(&p.turn.Ticket, err)
		p.decideWithoutStore(e, errors.Is(err, storage.ErrNotTaken))
	}
}

// cancel denies all, because their caller has left.
func (p *atomicBatch) cancel(e *Engine) {
	for i := range p.members {
		if m := &p.members[i]; m.asks {
			m.verdict.Now, m.work.cancelled = e.instant(), true
		}
	}
}

// full decides after a full store has refused the ticket.
func (p *atomicBatch) full(e *Engine) {
	for i := range p.members {
		if m := &p.members[i]; m.asks {
			e.full(m.verdict, m.work)
		}
	}
}

// share gives each member the results of its own groups.
func (p *atomicBatch) share() {
	all := &p.turn.Outcome
	ends, end := p.ends[:0], 0
	for i := range all.Groups {
		end += len(p.turn.Ticket.Groups[i].Charges)
		ends = append(ends, end)
	}
	p.ends = ends
	for i := range p.members {
		m := &p.members[i]
		if !m.asks {
			continue
		}
		out := &m.work.turn.Outcome
		*out = storage.Outcome{Now: all.Now, Allowed: true, Cached: all.Cached, Groups: out.Groups[:0], Decisions: out.Decisions[:0], States: out.States[:0]}
		for k, g := range m.groups {
			from := ends[g] - len(p.turn.Ticket.Groups[g].Charges)
			out.Groups = append(out.Groups, all.Groups[g])
			out.Decisions = append(out.Decisions, all.Decisions[from:ends[g]]...)
			if len(all.States) == len(all.Decisions) {
				out.States = append(out.States, all.States[from:ends[g]]...)
			}
			out.Allowed = out.Allowed && (all.Groups[g].Allowed || !m.work.asked[k].isLive())
		}
	}
}

// clear releases what shadow rules have taken for requests that are denied only because of another one.
func (p *atomicBatch) clear(ctx context.Context, e *Engine, store penstock.Store) {
	if p.turn.Outcome.Allowed {
		return
	}
	for i := range p.members {
		if m := &p.members[i]; m.asks && m.verdict.Allowed {
			m.verdict.Reservation, m.verdict.ReservedFor = "", 0
			e.releaseShadowPermits(ctx, m.work, store)
		}
	}
}

// decideWithoutStore decides what the store did not: each rule's failure policy says how, and the local store counts
// all of its groups or none.
func (p *atomicBatch) decideWithoutStore(e *Engine, uncharged bool) {
	for i := range p.members {
		m := &p.members[i]
		if !m.asks {
			continue
		}
		m.work.uncharged = uncharged
		m.asks = e.standIn(m.verdict, m.work)
		p.denied = p.denied || !m.verdict.Allowed
	}
	ctx := context.Background()
	if !p.join() || !p.needsStore() {
		return
	}
	switch err := take(ctx, e.local, &p.turn); {
	case errors.Is(err, storage.ErrFull):
		p.full(e)
		return
	case err != nil:
		return
	}
	p.share()
	for i := range p.members {
		if m := &p.members[i]; m.asks {
			e.fill(ctx, m.verdict, m.work, e.local, penstock.QualityLocal)
			e.book(m.work)
		}
	}
	p.clear(ctx, e, e.local)
}
