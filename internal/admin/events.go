package admin

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/traffic"
)

// An Event is one decided request.
type Event struct {
	At         time.Time        `json:"at"`
	Node       string           `json:"node"` // name of the node that decided it
	Domain     string           `json:"domain"`
	Attributes Attributes       `json:"attributes"`
	Cost       int64            `json:"cost"`
	ID         bool             `json:"id"` // whether it had one
	Allowed    bool             `json:"allowed"`
	Duplicate  bool             `json:"duplicate"`
	Reason     penstock.Reason  `json:"reason"`
	Quality    penstock.Quality `json:"quality"`
	Rule       string           `json:"rule"` // the rule that decided
	RetryAfter *int64           `json:"retry_after_ms"`
	Limits     []LimitState     `json:"limits"`
	Keys       []EventKey       `json:"keys"`   // the client's key under each rule
	Shadow     []string         `json:"shadow"` // shadow rules that would have denied it
	Version    int64            `json:"rules_version"`
	Weight     int64            `json:"weight"` // number of requests it represents: at high rates only a sample is kept
}

// An EventKey is the client's key under one rule, and the rule's decisions.
type EventKey struct {
	Rule   string     `json:"rule"`
	Key    Attributes `json:"key"`
	Result string     `json:"result"`
}

// A LimitState is the state of one limit of one rule for a client.
type LimitState struct {
	Rule       string             `json:"rule"`
	Policy     string             `json:"policy"`
	Algorithm  penstock.Algorithm `json:"algorithm"`
	Limit      int64              `json:"limit"`
	Count      int64              `json:"count"`
	Window     int64              `json:"window_ms"`
	Allowed    bool               `json:"allowed"`
	Used       int64              `json:"used"`
	Remaining  int64              `json:"remaining"`
	RetryAfter *int64             `json:"retry_after_ms"` // null: never
	ResetAfter *int64             `json:"reset_after_ms"`
	Shadow     bool               `json:"shadow,omitempty"`
	Banned     bool               `json:"banned,omitempty"`
}

func limitState(l *penstock.LimitVerdict) LimitState {
	return LimitState{
		Rule: l.Rule, Policy: l.Policy, Algorithm: l.Algorithm, Limit: l.Limit, Count: l.Count, Window: l.Window.Milliseconds(),
		Allowed: l.Allowed, Used: l.Used, Remaining: l.Remaining,
		RetryAfter: milliseconds(l.RetryAfter), ResetAfter: milliseconds(l.ResetAfter), Shadow: l.Shadow, Banned: l.Banned,
	}
}

// milliseconds rounds up, so that a client that waits this long has waited long enough. It returns nil for never.
func milliseconds(d time.Duration) *int64 {
	if d == penstock.Never {
		return nil
	}
	return new(int64((d + time.Millisecond - 1) / time.Millisecond))
}

func eventOf(e *fleet.Event) Event {
	told := Event{
		At: e.At, Node: e.Node, Domain: e.Domain, Attributes: attributesOf(e.Attributes), Cost: e.Cost, ID: e.ID,
		Allowed: e.Allowed, Duplicate: e.Duplicate, Reason: e.Reason, Quality: e.Quality, Rule: e.Rule,
		RetryAfter: milliseconds(e.RetryAfter), Limits: each(e.Limits, limitState), Shadow: append([]string{}, e.Shadow...),
		Keys:    each(e.Keys, func(k *traffic.RuleKey) EventKey { return EventKey{k.Rule, attributesOf(k.Key), k.Result.String()} }),
		Version: e.RulesVersion, Weight: e.Weight(),
	}
	if told.Domain == "" {
		told.Domain = penstock.DefaultDomain
	}
	return told
}

func (x *apiRequest) filter(q *query) traffic.Filter {
	f := traffic.Filter{Rule: q.text("rule"), Denied: q.flag("denied"), Attribute: q.text("attribute"), Value: q.text("value")}
	if f.Attribute == "" && f.Value != "" {
		q.fail("value", "needs an attribute")
	}
	if x.who.role < Operator && f.Attribute != "" && !unveiled(f.Attribute) {
		q.fail("attribute", "only operators may search by %.64q, because a search reveals the value", f.Attribute)
	}
	return f
}

// maxEvents bounds the number of recent requests in one response.
const maxEvents = 1000

// Events are some of the recent requests.
type Events struct {
	Events []Event `json:"events"` // newest first
}

func (a *Admin) recent(x *apiRequest) (any, error) {
	q := x.query()
	filter, most, node := x.filter(q), q.number("limit", 100, 1, maxEvents), q.text("node")
	if err := q.err(); err != nil {
		return nil, err
	}
	return Events{each(a.Fleet.Recent(x.r.Context(), filter, int(most), node), eventOf)}, nil
}

// maxBatch is the number of events written before a flush.
const maxBatch = 256

// follow streams requests as they are decided, as server-sent events: verdict, with one request each, and dropped,
// with the number missed since the start. It ends with the session, or when the server stops.
func (a *Admin) follow(x *apiRequest) (any, error) {
	q := x.query()
	filter, node := x.filter(q), q.text("node")
	if err := q.err(); err != nil {
		return nil, err
	}
	end, err := a.tails.begin(x.who.role)
	if err != nil {
		return nil, err
	}
	defer end()
	tail, err := a.Fleet.Follow(filter, node)
	if errors.Is(err, traffic.ErrWatched) {
		return nil, refuse(http.StatusServiceUnavailable, Unavailable, err.Error())
	}
	if err != nil {
		return nil, err
	}
	defer tail.Close()
	f := &follower{stream: newStream(x), tail: tail}
	if f.begin() {
		f.run()
	}
	return responseWritten{}, nil
}

// A follower is a stream of decided requests.
type follower struct {
	*stream
	tail *fleet.Tail
	told int64 // number of dropped events already reported
}

func (f *follower) run() {
	beat := time.NewTicker(f.admin.beat)
	defer beat.Stop()
	for ok := true; ok; {
		select {
		case <-f.admin.draining.Done():
			return
		case <-f.r.Context().Done():
			return
		case <-beat.C:
			ok = f.isAllowed() && f.send(func() { fmt.Fprint(f.w, ":\n\n") })
		case e := <-f.tail.Events():
			ok = f.send(func() { f.write(&e) })
		}
	}
}

// write writes an event and the events that have arrived since.
func (f *follower) write(e *fleet.Event) {
	f.event("verdict", eventOf(e))
	for range maxBatch {
		select {
		case next := <-f.tail.Events():
			f.event("verdict", eventOf(&next))
			continue
		default:
		}
		break
	}
	if dropped := f.tail.Dropped(); dropped != f.told {
		f.told = dropped
		fmt.Fprintf(f.w, "event: dropped\ndata: {\"dropped\":%d}\n\n", dropped)
	}
}
