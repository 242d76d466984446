package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A Key is a client that a rule keeps state for.
type Key struct {
	Subject string     `json:"subject"`       // hash of the key, or a prefix of it if the store has no more
	Key     Attributes `json:"key,omitempty"` // the key itself, if the client sent requests to this node recently
}

// Keys are a page of clients.
type Keys struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next,omitempty"` // the cursor of the next page
}

// aboutKeys is about how many keys one page scans.
const aboutKeys = 1000

// listKeys lists the clients of a rule in pages. A page can be empty without being the last.
func (a *Admin) listKeys(x *apiRequest) (any, error) {
	q := x.query()
	name, cursor := q.text("rule"), q.text("cursor")
	if name == "" {
		q.fail("rule", "is missing: the name of a rule")
	}
	if len(cursor) > 512 {
		q.fail("cursor", "is not the next of the previous page")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	rule, err := a.rule(name)
	if err != nil {
		return nil, err
	}
	page, next, err := a.Store.Keys(x.r.Context(), rule.Subjects.Tag(), cursor, aboutKeys)
	if err != nil {
		return nil, err
	}
	seen := a.subjects(rule)
	return Keys{each(page, func(subject *string) Key { return Key{*subject, attributesOf(seen[*subject].Key)} }), next}, nil
}

func (a *Admin) rule(name string) (*rules.Rule, error) {
	for _, r := range a.Rules.Live.Load().Rules {
		if r.Name == name {
			return r, nil
		}
	}
	return nil, refuse(http.StatusNotFound, NotFound, fmt.Sprintf("there is no rule %.64q", name))
}

// maxNames is how many recent requests are searched for names.
const maxNames = 10_000

// KeyStates are all that is known about a client.
type KeyStates struct {
	Keys   []KeyState `json:"keys"`
	Block  *Block     `json:"block,omitempty"` // that denies its requests
	Recent []Event    `json:"recent"`          // recent requests that the nodes kept, newest first
}

// A KeyState is what one rule knows about a client.
type KeyState struct {
	Rule         string        `json:"rule"`
	Mode         string        `json:"mode"`
	Key          Attributes    `json:"key"`
	Subject      string        `json:"subject"`
	Override     *int          `json:"override,omitempty"` // the override that applies, counted from 0
	Unlimited    bool          `json:"unlimited,omitempty"`
	Limits       []LimitState  `json:"limits"`
	Others       []Counters    `json:"other_counters,omitempty"` // counters with something counted
	CanBan       bool          `json:"can_ban"`                  // the rule has a penalty
	BannedUntil  *time.Time    `json:"banned_until,omitempty"`
	Strikes      int64         `json:"strikes"`
	Bans         int64         `json:"bans"` // until now, as far as they are not forgiven
	Reservations []Reservation `json:"reservations"`
	Reserved     int64         `json:"reserved"` // number of reservations
}

// Counters are those of a rule, or of one of its overrides, that apply to other requests of a client.
type Counters struct {
	Override *int         `json:"override,omitempty"` // counted from 0; none: the rule's own
	Limits   []LimitState `json:"limits"`
}

// A Reservation is one reservation of a client.
type Reservation struct {
	Until  time.Time `json:"until"`
	Closed bool      `json:"closed"` // settled or released
	Cost   int64     `json:"cost"`   // for the limit it takes most of
}

// shownReservations is the number of reservations shown for a client.
const shownReservations = 20

// showKey returns all that is known about a client.
func (a *Admin) showKey(x *apiRequest, asked *clientSelector) (any, error) {
	told := KeyStates{Keys: []KeyState{}, Recent: []Event{}}
	call := asked.call(new(wire.FieldErrors)) // find reports mistakes
	block := a.blockFor(call)
	if block != nil {
		told.Block = new(blockOf(block))
	}
	found, err := a.find(asked, new(wire.FieldErrors))
	if err != nil && (block == nil || asked.Rule != "") {
		return nil, err
	}
	for i := range found {
		state, err := a.inspect(x.r.Context(), &found[i])
		if err != nil {
			return nil, err
		}
		told.Keys = append(told.Keys, *state)
	}
	for _, e := range a.Fleet.Recent(x.r.Context(), traffic.Filter{}, maxNames, "") {
		made := func(s subject) bool { return s.made(&e.Event) }
		if len(told.Recent) < shownEvents && (slices.ContainsFunc(found, made) || wasBlocked(&e.Event, call)) {
			told.Recent = append(told.Recent, eventOf(&e))
		}
	}
	return told, nil
}

const shownEvents = 50

// wasBlocked reports whether a request with these attributes was denied by a block, which asks no rule.
func wasBlocked(e *traffic.Event, of *penstock.Call) bool {
	if e.Reason != penstock.ReasonBlocked || len(of.Attributes) == 0 {
		return false
	}
	return !slices.ContainsFunc(of.Attributes, func(part penstock.Attribute) bool { return !slices.Contains(e.Attributes, part) })
}

func (a *Admin) inspect(ctx context.Context, s *subject) (*KeyState, error) {
	g := s.group()
	seen, err := storage.Inspect(ctx, a.Store, 0, []storage.Group{g}, shownReservations)
	if err != nil {
		return nil, err
	}
	found, policies := &seen[0], s.Rule.Policies
	told := &KeyState{
		Rule: s.Rule.Name, Mode: s.Rule.Mode.String(), Key: attributesOf(s.Key), Subject: s.id.String(), Unlimited: s.Unlimited,
		Limits: []LimitState{}, CanBan: s.Rule.Penalty != nil, Strikes: found.Group.Strikes, Bans: found.Group.Bans,
		Reservations: []Reservation{}, Reserved: found.Reserved,
	}
	if s.Override != rules.NoOverride {
		told.Override = &s.Override
		if !s.Unlimited {
			policies = s.Rule.Overrides[s.Override].Policies
		}
	}
	told.BannedUntil = instantOrNil(found.Group.BannedUntil)
	told.Limits = s.limitStates(g.Charges, policies, found.Decisions, told.BannedUntil != nil)
	if told.Others, err = a.otherCounters(ctx, s, told.BannedUntil != nil); err != nil {
		return nil, err
	}
	for _, r := range found.Reservations {
		one := Reservation{Until: r.Until.Time(), Closed: r.Closed}
		for _, receipt := range r.Receipts {
			one.Cost = max(one.Cost, receipt.Cost)
		}
		told.Reservations = append(told.Reservations, one)
	}
	return told, nil
}

func (s *subject) limitStates(charges []algorithm.Charge, policies []string, decisions []penstock.Decision, banned bool) []LimitState {
	told := []LimitState{}
	for i := range decisions {
		m := charges[i].Meter
		told = append(told, limitState(&penstock.LimitVerdict{
			Rule: s.Rule.Name, Policy: policies[i], Shadow: s.Rule.Mode == rules.Shadow, Banned: banned,
			Algorithm: m.Algorithm(), Refill: m.Limit().Refill, Count: m.PerWindow(), Window: m.WindowAt(penstock.InstantOf(time.Now())), Decision: decisions[i],
		}))
	}
	return told
}

// otherCounters reads the counters of a client that its attributes do not select, and returns those with something
// counted.
func (a *Admin) otherCounters(ctx context.Context, s *subject, banned bool) (told []Counters, err error) {
	for some := range slices.Chunk(s.otherCounters(), storage.MaxGroups) {
		var t storage.Ticket
		for _, c := range some {
			g := storage.Group{Subject: s.id, Alone: true}
			for _, m := range c.limits {
				g.Charges = append(g.Charges, algorithm.Charge{Meter: m})
			}
			t.Groups = append(t.Groups, g)
		}
		var out storage.Outcome
		if err := a.Store.Take(ctx, &t, &out); err != nil {
			return nil, fmt.Errorf("inspect: %w", err)
		}
		decisions := out.Decisions
		for i, c := range some {
			own := decisions[:len(c.limits)]
			decisions = decisions[len(c.limits):]
			if !slices.ContainsFunc(own, func(d penstock.Decision) bool { return d.Used > 0 }) {
				continue
			}
			found := Counters{Limits: s.limitStates(t.Groups[i].Charges, c.policies, own, banned)}
			if c.override != rules.NoOverride {
				found.Override = &c.override
			}
			told = append(told, found)
		}
	}
	return told, nil
}
