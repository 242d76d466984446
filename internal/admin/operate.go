package admin

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A ChangeResult is what was changed for a client, by rule.
type ChangeResult struct {
	Keys []ChangedKey `json:"keys"`
}

// A ChangedKey is the state of a client under one rule that was changed.
type ChangedKey struct {
	Rule        string           `json:"rule"`
	Key         EchoedAttributes `json:"key"`
	BannedUntil *time.Time       `json:"banned_until,omitempty"`
}

// resetKey deletes the state of a client: counters, strikes, ban and reservations.
func (a *Admin) resetKey(x *apiRequest, asked *clientSelector) (any, error) {
	found, err := a.find(asked, new(wire.FieldErrors))
	if err != nil {
		return nil, err
	}
	return a.operate(x, "reset", "", "", found, func(s *subject) (until *time.Time, err error) {
		for _, g := range s.allGroups() {
			if err := a.Store.Reset(x.r.Context(), &g); err != nil {
				return nil, err
			}
			if local, ok := a.Local.(storage.Resetter); ok {
				err = errors.Join(err, local.Reset(x.r.Context(), &g))
			}
		}
		a.Forget(s.id, false, algorithm.MaxInstant)
		return nil, err
	})
}

// allGroups returns all counters that a rule can have for a subject, whichever override applied. Of the counters that
// numbers from data have, it returns those of the given attributes and those that this node used recently. It returns
// several groups because the number of charges in a group is bounded.
func (s *subject) allGroups() []storage.Group {
	meters := map[uint64]*algorithm.Meter{}
	for _, m := range s.Limits { // where numbers come from data, KnownLimits may lack them
		meters[m.Fingerprint] = m
	}
	s.Rule.KnownLimits(func(l *rules.Limits) {
		for _, m := range l.Meters {
			meters[m.Fingerprint] = m
		}
		if l.Dedup != nil {
			meters[l.Dedup.Budget.Fingerprint] = l.Dedup.Budget
		}
	})
	var groups []storage.Group
	for some := range slices.Chunk(slices.Sorted(maps.Keys(meters)), storage.MaxCharges) {
		g := storage.Group{Subject: s.id, Penalty: s.Rule.Penalty}
		for _, fingerprint := range some {
			g.Charges = append(g.Charges, algorithm.Charge{Meter: meters[fingerprint]})
		}
		groups = append(groups, g)
	}
	return groups
}

func (a *Admin) ban(x *apiRequest, asked *struct {
	clientSelector
	Duration string `json:"duration"`
	Reason   string `json:"reason"`
}) (any, error) {
	var mistakes wire.FieldErrors
	length, err := rules.ParseDuration(asked.Duration)
	if err != nil || length < algorithm.MinWindow || length > algorithm.MaxWindow {
		mistakes.Add("duration", "invalid duration %.32q: must be from %v to %v, for example 1h", asked.Duration, algorithm.MinWindow, rules.Duration(algorithm.MaxWindow))
	}
	if len(asked.Reason) > blocklist.MaxText {
		mistakes.Add("reason", "has %d bytes; at most %d", len(asked.Reason), blocklist.MaxText)
	}
	return a.banFor(x, &asked.clientSelector, "ban", length, asked.Reason, &mistakes)
}

func (a *Admin) lift(x *apiRequest, asked *clientSelector) (any, error) {
	return a.banFor(x, asked, "lift", 0, "", new(wire.FieldErrors))
}

// banFor bans the client under the rules that have a penalty, or lifts the bans.
func (a *Admin) banFor(x *apiRequest, w *clientSelector, action string, length time.Duration, reason string, mistakes *wire.FieldErrors) (any, error) {
	found, err := a.find(w, mistakes)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(s subject) bool { return s.Rule.Penalty == nil })
	if len(found) == 0 {
		return nil, refuse(http.StatusConflict, Conflict, "no rule with a penalty applies to this client: block the client instead, or add a penalty to a rule")
	}
	before, after := "", ""
	if length != 0 {
		before = fmt.Sprintf("for %v ", rules.Duration(length))
	}
	if reason != "" {
		after = ": " + reason
	}
	return a.operate(x, action, before, after, found, func(s *subject) (*time.Time, error) {
		b := storage.Ban{Subject: s.id, Penalty: s.Rule.Penalty, Length: length}
		until, err := a.Store.Ban(x.r.Context(), &b)
		if err != nil {
			return nil, err
		}
		if local, ok := a.Local.(storage.Banner); ok {
			_, err = local.Ban(x.r.Context(), &b)
		}
		if length == 0 {
			a.Forget(s.id, true, algorithm.MaxInstant)
			return nil, err
		}
		return new(until.Time()), err
	})
}

// operate runs do for each subject, and records in the audit log for which ones it succeeded.
func (a *Admin) operate(x *apiRequest, action, before, after string, found []subject, do func(*subject) (*time.Time, error)) (any, error) {
	done := ChangeResult{Keys: []ChangedKey{}}
	defer func() {
		for _, k := range done.Keys {
			a.record(x, action, before+k.String()+after)
		}
	}()
	for i := range found {
		until, err := do(&found[i])
		if err != nil {
			return nil, fmt.Errorf("%s under rule %s: %w", action, found[i].Rule.Name, err)
		}
		done.Keys = append(done.Keys, ChangedKey{found[i].Rule.Name, EchoedAttributes(attributesOf(found[i].Key)), until})
	}
	return done, nil
}

// String returns the rule and the key for the audit log. Values are quoted, since clients choose them.
func (k *ChangedKey) String() string {
	parts := []string{"rule " + k.Rule}
	for _, name := range slices.Sorted(maps.Keys(k.Key)) {
		parts = append(parts, fmt.Sprintf("%s=%.200q", name, k.Key[name]))
	}
	return strings.Join(parts, " ")
}
