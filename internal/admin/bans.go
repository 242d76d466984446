package admin

import (
	"encoding/base64"
	"net/url"
	"slices"
	"time"

	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/rules"
)

// Bans are a page of the active bans.
type Bans struct {
	Bans    []Ban  `json:"bans"`
	Unknown int    `json:"unknown"`        // clients in the page that were not checked; 0, because stores list banned clients in full
	Next    string `json:"next,omitempty"` // the cursor of the next page
}

// A Ban is the ban of one client by one rule.
type Ban struct {
	Rule    string     `json:"rule"`
	Subject string     `json:"subject"`       // hash of the key
	Key     Attributes `json:"key,omitempty"` // if this node has seen the client recently
	Until   time.Time  `json:"until"`
	Bans    int64      `json:"bans"`             // of this client until now, as far as they are not forgiven
	Author  string     `json:"author,omitempty"` // the operator; "": the rule's penalty, or it is not in the audit log
	Reason  string     `json:"reason,omitempty"` // that the operator gave
}

// bansPerPage is about how many clients a page checks. Each one takes a query to the store.
const bansPerPage = 200

// listBans lists the active bans, in pages over the clients of all rules with a penalty. A page can be empty without
// being the last.
func (a *Admin) listBans(x *apiRequest) (any, error) {
	q := x.query()
	cursor, err := url.ParseQuery(q.text("cursor"))
	if err != nil || len(q.text("cursor")) > 1024 {
		q.fail("cursor", "is not the next of the previous page")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	banning := slices.DeleteFunc(slices.Clone(a.Rules.Live.Load().Rules), func(r *rules.Rule) bool { return r.Penalty == nil })
	if from := cursor.Get("rule"); from != "" {
		at := slices.IndexFunc(banning, func(r *rules.Rule) bool { return r.Name == from })
		if at < 0 {
			q.fail("cursor", "is outdated because the rules have changed: start with the first page")
			return nil, q.err()
		}
		banning = banning[at:]
	}
	told := &Bans{Bans: []Ban{}}
	if len(banning) == 0 {
		return told, nil
	}
	next, err := a.bansOf(x, banning[0], cursor.Get("at"), told)
	switch {
	case err != nil:
		return nil, err
	case next != "":
		told.Next = url.Values{"rule": {banning[0].Name}, "at": {next}}.Encode()
	case len(banning) > 1:
		told.Next = url.Values{"rule": {banning[1].Name}}.Encode()
	}
	return told, nil
}

// bansOf adds a page of the bans of one rule and returns the cursor of the next page.
func (a *Admin) bansOf(x *apiRequest, r *rules.Rule, cursor string, told *Bans) (next string, err error) {
	found, next, err := a.bannedPage(x, r, cursor)
	if err != nil {
		return "", err
	}
	byHand := a.bansByHand(x.r.Context())
	for i := range found {
		ban := found[i].ban
		if ban.Key != nil {
			ban.Author, ban.Reason = byHand.of(&ban)
		}
		told.Bans = append(told.Bans, ban)
	}
	return next, nil
}

// parseSubject parses a subject listed by a store. It fails if the store only knows a prefix.
func parseSubject(r *rules.Rule, text string) (s subject, ok bool) {
	s.Rule = r
	s.Override = rules.NoOverride
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return s, err == nil && copy(s.id[:], raw) == len(s.id)
}

// subjects returns the clients of a rule that the nodes have seen recently. They are keyed by their text as stores
// list it, which may be a prefix.
func (a *Admin) subjects(r *rules.Rule) map[string]subject {
	const known = 10 // characters, where a store only knows a prefix
	found := map[string]subject{}
	for _, e := range a.Fleet.Recent(a.draining, traffic.Filter{Rule: r.Name}, maxNames, "") {
		for _, k := range e.Keys {
			if k.Rule == r.Name { // subjects of an earlier rule with this name are not listed
				s := newSubject(rules.RuleExplanation{Rule: r, Key: k.Key, Override: rules.NoOverride})
				text := s.id.String()
				found[text], found[text[:known]+"…"] = s, s
			}
		}
	}
	return found
}
