package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/traffic"
)

// An Event is one decided call.
type Event struct {
	At         time.Time        `json:"at"`
	Domain     string           `json:"domain"`
	Attributes Attributes       `json:"attributes"`
	Cost       int64            `json:"cost"`
	ID         bool             `json:"id"` // whether it had one
	Allowed    bool             `json:"allowed"`
	Duplicate  bool             `json:"duplicate"`
	Reason     penstock.Reason  `json:"reason"`
	Quality    penstock.Quality `json:"quality"`
	Rule       string           `json:"rule"` // that decided
	RetryAfter *int64           `json:"retry_after_ms"`
	Limits     []LimitState     `json:"limits"`
	Keys       []EventKey       `json:"keys"`   // whom each rule took the caller for
	Shadow     []string         `json:"shadow"` // rules that are only tried and would have denied it
	Version    int64            `json:"rules_version"`
	Weight     int64            `json:"weight"` // how many calls it stands for: of very many few are kept
}

// An EventKey is whom a rule took a caller for, and what it said.
type EventKey struct {
	Rule   string     `json:"rule"`
	Key    Attributes `json:"key"`
	Result string     `json:"result"`
}

// A LimitState is one limit of one rule, as a caller stands to it.
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

// milliseconds are rounded up, so that who waits has waited long enough; nil is never.
func milliseconds(d time.Duration) *int64 {
	if d == penstock.Never {
		return nil
	}
	ms := int64((d + time.Millisecond - 1) / time.Millisecond)
	return &ms
}

func eventOf(e *traffic.Event) Event {
	told := Event{
		At: e.At, Domain: e.Domain, Attributes: attributesOf(e.Attributes), Cost: e.Cost, ID: e.ID,
		Allowed: e.Allowed, Duplicate: e.Duplicate, Reason: e.Reason, Quality: e.Quality, Rule: e.Rule,
		RetryAfter: milliseconds(e.RetryAfter), Limits: []LimitState{}, Keys: []EventKey{}, Shadow: []string{},
		Version: e.RulesVersion, Weight: e.Weight(),
	}
	if told.Domain == "" {
		told.Domain = penstock.DefaultDomain
	}
	for i := range e.Limits {
		told.Limits = append(told.Limits, limitState(&e.Limits[i]))
	}
	for _, k := range e.Keys {
		told.Keys = append(told.Keys, EventKey{k.Rule, attributesOf(k.Key), k.Result.String()})
	}
	told.Shadow = append(told.Shadow, e.Shadow...)
	return told
}

func filterOf(q *query) traffic.Filter {
	f := traffic.Filter{Rule: q.text("rule"), Denied: q.flag("denied"), Attribute: q.text("attribute"), Value: q.text("value")}
	if f.Attribute == "" && f.Value != "" {
		q.fail("value", "needs an attribute")
	}
	return f
}

// maxEvents is how many of the last calls are told at once.
const maxEvents = 1000

// Events are some of the last calls.
type Events struct {
	Events []Event `json:"events"` // the last first
}

func (a *Admin) recent(x *exchange) (any, error) {
	q := x.query()
	filter, most := filterOf(q), q.number("limit", 100, 1, maxEvents)
	if err := q.err(); err != nil {
		return nil, err
	}
	told := Events{[]Event{}}
	found := a.Traffic.Recent(filter, int(most))
	for i := range found {
		told.Events = append(told.Events, eventOf(&found[i]))
	}
	return told, nil
}

// Of a stream.
const (
	heartbeat    = 10 * time.Second // so that a client or proxy that is gone is noticed
	patience     = 10 * time.Second // with who does not take what is written
	maxBatch     = 256              // events that are written before they are sent
	streamStatus = ": penstock\n\n"
)

// follow streams calls as they are decided, as server-sent events: verdict, each with one call, and
// dropped, with how many were missed so far. It ends with the session, or when the server stops.
func (a *Admin) follow(x *exchange) (any, error) {
	q := x.query()
	filter := filterOf(q)
	if err := q.err(); err != nil {
		return nil, err
	}
	tail, err := a.Traffic.Follow(filter)
	if errors.Is(err, traffic.ErrWatched) {
		return nil, problem(http.StatusServiceUnavailable, Unavailable, err.Error())
	}
	if err != nil {
		return nil, err
	}
	defer tail.Close()
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.w.Header().Set("X-Accel-Buffering", "no") // a proxy is to pass events on as they come
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method == http.MethodHead {
		return answered{}, nil
	}
	s := &stream{Admin: a, exchange: x, tail: tail, control: http.NewResponseController(x.w)}
	s.run()
	return answered{}, nil
}

// A stream is one that follows.
type stream struct {
	*Admin
	*exchange
	tail    *traffic.Tail
	control *http.ResponseController
	told    int64 // of those dropped
}

func (s *stream) run() {
	beat := time.NewTicker(s.beat)
	defer beat.Stop()
	ok := s.send(func() { fmt.Fprint(s.w, streamStatus) })
	for ok {
		select {
		case <-s.draining.Done():
			return
		case <-s.r.Context().Done():
			return
		case <-beat.C:
			ok = s.lasts() && s.send(func() { fmt.Fprint(s.w, ":\n\n") })
		case e := <-s.tail.Events():
			ok = s.send(func() { s.write(&e) })
		}
	}
}

// lasts tells whether who follows is still let in.
func (s *stream) lasts() bool { return s.who.session == nil || s.sessions.lasts(s.who.session) }

// send writes and flushes. A reader that does not read is given up on.
func (s *stream) send(write func()) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(patience)) // where there are no deadlines there is no network
	write()
	return s.control.Flush() == nil
}

// write writes an event and those that have come meanwhile.
func (s *stream) write(e *traffic.Event) {
	s.verdict(e)
	for range maxBatch {
		select {
		case next := <-s.tail.Events():
			s.verdict(&next)
			continue
		default:
		}
		break
	}
	if dropped := s.tail.Dropped(); dropped != s.told {
		s.told = dropped
		fmt.Fprintf(s.w, "event: dropped\ndata: {\"dropped\":%d}\n\n", dropped)
	}
}

func (s *stream) verdict(e *traffic.Event) {
	data, err := json.Marshal(eventOf(e)) // escapes line ends
	if err != nil {
		return // texts, numbers and times: it cannot be
	}
	fmt.Fprintf(s.w, "event: verdict\ndata: %s\n\n", data)
}
