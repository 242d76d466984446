package admin

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// LiftedBans are a page of the bans that were lifted, or would be.
type LiftedBans struct {
	Bans []Ban  `json:"bans"`
	Next string `json:"next,omitempty"` // the cursor to go on with
}

// A liftSelector says which bans to lift: those of a rule, that of one key by its hash, or all.
type liftSelector struct {
	Rule   string `json:"rule"`
	Hash   string `json:"hash"`
	All    bool   `json:"all"`
	DryRun bool   `json:"dry_run"`
	Cursor string `json:"cursor"`
}

// liftBans lifts the bans of many clients, a page at a time. A rule that was a mistake has banned clients that nobody
// can name.
func (a *Admin) liftBans(x *apiRequest, asked *liftSelector) (any, error) {
	told := &LiftedBans{Bans: []Ban{}}
	banning, at, err := a.banningRules(asked)
	if err != nil || len(banning) == 0 {
		return told, err
	}
	r := banning[0]
	var found []bannedSubject
	if asked.Hash != "" {
		s, _ := parseSubject(r, asked.Hash)
		found, err = a.bannedOf(x, r, []string{s.id.String()})
	} else {
		found, told.Next, err = a.bannedPage(x, r, at)
		switch {
		case told.Next != "":
			told.Next = url.Values{"rule": {r.Name}, "at": {told.Next}}.Encode()
		case len(banning) > 1:
			told.Next = url.Values{"rule": {banning[1].Name}}.Encode()
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range found {
		if !asked.DryRun {
			if err = a.liftOne(x, &found[i].subject); err != nil {
				break
			}
		}
		told.Bans = append(told.Bans, found[i].ban)
	}
	if n := len(told.Bans); n > 0 && !asked.DryRun {
		a.record(x, "lift", fmt.Sprintf("rule %s: %s", r.Name, counted(told.Bans)))
	}
	if err != nil {
		return nil, fmt.Errorf("lift under rule %s: %w", r.Name, err)
	}
	return told, nil
}

// counted describes lifted bans for the audit log.
func counted(bans []Ban) string {
	const shown = 5
	var hashes []string
	for _, b := range bans[:min(shown, len(bans))] {
		hashes = append(hashes, b.Subject)
	}
	if len(bans) > shown {
		hashes = append(hashes, "…")
	}
	return fmt.Sprintf("%s: %s", spelling.Count(len(bans), "ban"), strings.Join(hashes, " "))
}

// check returns the errors of a selector, and the position of its cursor.
func (l *liftSelector) check() (cursor url.Values, err error) {
	var mistakes wire.FieldErrors
	given := 0
	for _, is := range []bool{l.Rule != "", l.Hash != "", l.All} {
		if is {
			given++
		}
	}
	if given != 1 {
		mistakes.Add("rule", "give one of rule, hash and all")
	}
	cursor, err = url.ParseQuery(l.Cursor)
	if err != nil || len(l.Cursor) > 1024 {
		mistakes.Add("cursor", "is not the next of the previous page")
	}
	if _, isHash := parseSubject(nil, l.Hash); l.Hash != "" && !isHash {
		mistakes.Add("hash", "%.64q is not the hash of a key: 22 characters, as penstock keys list --banned shows them", l.Hash)
	}
	return cursor, mistakes.Err()
}

// banningRules returns the selected rules that can ban, from the one the cursor is at, and the cursor within it.
func (a *Admin) banningRules(asked *liftSelector) (banning []*rules.Rule, at string, err error) {
	cursor, err := asked.check()
	if err != nil {
		return nil, "", err
	}
	at = cursor.Get("at")
	if asked.Rule != "" {
		r, err := a.rule(asked.Rule)
		if err != nil {
			return nil, "", err
		}
		if r.Penalty == nil {
			return nil, "", mistake("rule", "rule %s has no penalty: its bans have no effect", r.Name)
		}
		return []*rules.Rule{r}, at, nil
	}
	s, _ := parseSubject(nil, asked.Hash)
	for _, r := range a.Rules.Live.Load().Rules {
		tag := r.Subjects.Tag()
		if r.Penalty != nil && (asked.All || string(tag[:]) == string(s.id[:len(tag)])) {
			banning = append(banning, r)
		}
	}
	if asked.Hash != "" && len(banning) == 0 {
		return nil, "", mistake("hash", "%s is not a key of any rule with a penalty", asked.Hash)
	}
	from := cursor.Get("rule")
	if from == "" {
		return banning, at, nil
	}
	i := slices.IndexFunc(banning, func(r *rules.Rule) bool { return r.Name == from })
	if i < 0 {
		return nil, "", mistake("cursor", "is outdated because the rules have changed: start with the first page")
	}
	return banning[i:], at, nil
}

// A bannedSubject is a client and its ban.
type bannedSubject struct {
	subject
	ban Ban
}

// bannedPage returns a page of the clients that a rule has banned, and the cursor of the next page.
func (a *Admin) bannedPage(x *apiRequest, r *rules.Rule, cursor string) (found []bannedSubject, next string, err error) {
	page, next, err := a.Store.Keys(x.r.Context(), r.Subjects.Tag(), cursor, bansPerPage)
	if err != nil {
		return nil, "", err
	}
	found, err = a.bannedOf(x, r, page)
	return found, next, err
}

// bannedOf returns those of the listed clients that are banned. A store that does not list a key in full knows
// that it is not.
func (a *Admin) bannedOf(x *apiRequest, r *rules.Rule, page []string) (found []bannedSubject, err error) {
	known := a.subjects(r)
	for _, text := range page {
		s, ok := known[text]
		if !ok || len(text) != len(s.id.String()) {
			if s, ok = parseSubject(r, text); !ok {
				continue
			}
		}
		seen, err := storage.Inspect(x.r.Context(), a.Store, 0, []storage.Group{s.group()}, 0)
		if err != nil {
			return nil, err
		}
		if until := seen[0].Group.BannedUntil; until != 0 {
			ban := Ban{Rule: r.Name, Subject: s.id.String(), Until: until.Time(), Bans: seen[0].Group.Bans}
			if s.Key != nil {
				ban.Key = attributesOf(s.Key)
			}
			found = append(found, bannedSubject{s, ban})
		}
	}
	return found, nil
}

// liftOne lifts the ban of a client, here and in the store.
func (a *Admin) liftOne(x *apiRequest, s *subject) error {
	b := storage.Ban{Subject: s.id, Penalty: s.Rule.Penalty}
	if _, err := a.Store.Ban(x.r.Context(), &b); err != nil {
		return err
	}
	if local, ok := a.Local.(storage.Banner); ok {
		if _, err := local.Ban(x.r.Context(), &b); err != nil {
			return err
		}
	}
	a.Forget(s.id, true, algorithm.MaxInstant)
	return nil
}
