package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
)

// An Entitlement is the number of a limit for clients whose attribute has a value.
type Entitlement struct {
	Attribute string     `json:"attribute"`
	Value     string     `json:"value"`
	Limit     string     `json:"limit"` // name, as rates have it after the dot
	Number    int64      `json:"number"`
	Until     *time.Time `json:"until,omitempty"`
	At        time.Time  `json:"at"` // of the last change
	Author    string     `json:"author"`
}

// Entitlements are a page of them.
type Entitlements struct {
	Entitlements []Entitlement `json:"entitlements"`
	Next         string        `json:"next,omitempty"` // the cursor of the next page
}

// listEntitlements lists rows in pages, ordered by attribute, value and limit.
func (a *Admin) listEntitlements(x *apiRequest) (any, error) {
	q := x.query()
	asked := ruledb.EntitlementQuery{
		Attribute: q.text("attribute"), Value: q.text("value"), Prefix: q.text("prefix"),
		Limit: int(q.number("limit", 100, 1, ruledb.MaxEntitlementPage)),
	}
	if cursor := q.text("cursor"); cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(cursor)
		if err == nil {
			err = json.Unmarshal(text, &asked.After)
		}
		if err != nil {
			q.fail("cursor", "is not the next of the previous page")
		}
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	page, err := a.entitlements(x.r.Context(), asked)
	if err != nil {
		return nil, err
	}
	x.admin.reveals.note(x)
	answer := Entitlements{Entitlements: page}
	if n := len(page); n == asked.Limit {
		last := &page[n-1]
		text, _ := json.Marshal(ruledb.EntitlementKey{Attribute: last.Attribute, Value: last.Value, Name: last.Limit}) // strings
		answer.Next = base64.RawURLEncoding.EncodeToString(text)
	}
	return answer, nil
}

func (a *Admin) entitlements(ctx context.Context, q ruledb.EntitlementQuery) ([]Entitlement, error) {
	db, err := a.entitlementDB(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := db.Entitlements(ctx, q)
	if err != nil {
		return nil, err
	}
	return each(rows, func(e *ruledb.Entitlement) Entitlement {
		return Entitlement{e.Attribute, e.Value, e.Name, e.Number, timeOrNil(e.Until), e.At, e.Author}
	}), nil
}

// entitlementDB returns the database that has the entitlements.
func (a *Admin) entitlementDB(ctx context.Context) (*ruledb.DB, error) {
	return a.databaseFor(ctx, "entitlements need the rules database, but the rules come from %v")
}

// entitlementSet is a row to set.
type entitlementSet struct {
	Attribute string    `json:"attribute"`
	Value     string    `json:"value"`
	Limit     string    `json:"limit"`
	Number    *int64    `json:"number"`
	Until     time.Time `json:"until"` // zero: never
}

// entitlementDelete names a row to delete; without a limit, all rows of the value.
type entitlementDelete struct {
	Attribute string `json:"attribute"`
	Value     string `json:"value"`
	Limit     string `json:"limit"`
}

// EntitlementsChanged says what a change did.
type EntitlementsChanged struct {
	Added     int      `json:"added"`
	Changed   int      `json:"changed"`
	Deleted   int      `json:"deleted"`
	Unchanged int      `json:"unchanged"`
	Warnings  []string `json:"warnings"` // about rows that have no effect, or not the intended one
}

// maxEntitlementBody fits a change of as many rows as there may be, with ordinary names.
const maxEntitlementBody = 8 << 20

// changeEntitlements sets and deletes rows, together or not at all.
func (a *Admin) changeEntitlements(x *apiRequest) (any, error) {
	var asked struct {
		Set    []entitlementSet    `json:"set"`
		Delete []entitlementDelete `json:"delete"`
		Note   string              `json:"note"`
	}
	if err := x.readUpTo(maxEntitlementBody, &asked); err != nil {
		return nil, err
	}
	change := ruledb.EntitlementChange{Author: x.who.String(), Note: asked.Note}
	var mistakes wire.FieldErrors
	for i := range asked.Set {
		s := &asked.Set[i]
		if s.Number == nil {
			if mistakes.Add(fmt.Sprintf("set[%d].number", i), "is missing"); len(mistakes.List) == wire.MaxMistakes {
				break
			}
			continue
		}
		change.Set = append(change.Set, ruledb.Entitlement{EntitlementKey: ruledb.EntitlementKey{Attribute: s.Attribute, Value: s.Value, Name: s.Limit}, Number: *s.Number, Until: s.Until})
	}
	if len(asked.Set)+len(asked.Delete) == 0 {
		mistakes.Add("set", `is missing: for example [{"attribute": "tenant", "value": "acme", "limit": "requests", "number": 5000}]`)
	}
	if err := mistakes.Err(); err != nil {
		return nil, err
	}
	db, err := a.entitlementDB(x.r.Context())
	if err != nil {
		return nil, err
	}
	if change.Delete, err = a.deletedKeys(x.r.Context(), asked.Delete); err != nil {
		return nil, err
	}
	done, err := db.SaveEntitlements(x.r.Context(), change)
	if err != nil {
		return nil, err
	}
	return EntitlementsChanged{done.Added, done.Changed, done.Deleted, done.Unchanged, a.entitlementWarnings(change.Set)}, nil
}

// maxOfValue is how many rows of one value are deleted at once.
const maxOfValue = 1000

// deletedKeys returns the rows to delete.
func (a *Admin) deletedKeys(ctx context.Context, all []entitlementDelete) (keys []ruledb.EntitlementKey, err error) {
	for _, d := range all {
		if d.Limit != "" || d.Attribute == "" || d.Value == "" {
			keys = append(keys, ruledb.EntitlementKey{Attribute: d.Attribute, Value: d.Value, Name: d.Limit})
			continue
		}
		rows, err := a.entitlements(ctx, ruledb.EntitlementQuery{Attribute: d.Attribute, Value: d.Value, Limit: maxOfValue})
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			keys = append(keys, ruledb.EntitlementKey{Attribute: e.Attribute, Value: e.Value, Name: e.Limit})
		}
	}
	return keys, nil
}

// maxDoubts is how many warnings a change returns.
const maxDoubts = 20

// entitlementWarnings returns warnings about rows that no limit reads, or that are above the maximum of one that does.
func (a *Admin) entitlementWarnings(rows []ruledb.Entitlement) []string {
	readers := map[[2]string][]rules.EntitledLimit{}
	for _, l := range a.Rules.Live.Load().EntitledLimits() {
		name := [2]string{l.Attribute, l.Entitlement}
		readers[name] = append(readers[name], l)
	}
	warnings := []string{}
	unread := map[string]bool{}
	for i := range rows {
		e := &rows[i]
		limits := readers[[2]string{e.Attribute, e.Name}]
		if len(limits) == 0 {
			unread[e.Attribute+"."+e.Name] = true
		}
		for _, l := range limits {
			if e.Number > l.Max && len(warnings) < maxDoubts {
				warnings = append(warnings, fmt.Sprintf("%v is %d, above the maximum of %d in rule %s: these clients get the default of %d", e.EntitlementKey, e.Number, l.Max, l.Rule.Name, l.Default))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		if len(warnings) < maxDoubts {
			warnings = append(warnings, fmt.Sprintf("no limit of the rules reads {%s}", name))
		}
	}
	return warnings
}

// A TenantView is what applies to the clients with some attributes: the rows that they have, and their limits.
type TenantView struct {
	Entitlements []Entitlement `json:"entitlements"`
	Limits       []TenantLimit `json:"limits"`
	Readable     []Readable    `json:"readable"` // entitlements that limits read
}

// A TenantLimit is one limit of these clients.
type TenantLimit struct {
	Rule     string   `json:"rule"`
	Mode     string   `json:"mode"`
	Policy   string   `json:"policy"`
	Text     string   `json:"text"`
	Key      []string `json:"key"` // what clients are told apart by
	Override *int     `json:"override,omitempty"`
	Number   Number   `json:"number"`
}

// A Readable is an entitlement that a limit reads.
type Readable struct {
	Attribute string `json:"attribute"`
	Limit     string `json:"limit"`
	Rule      string `json:"rule"`
	Max       int64  `json:"max"`
	Default   int64  `json:"default"`
}

// maxTenantRules bounds how many rules a view lists.
const maxTenantRules = 500

// showTenant returns the limits of a tenant, or of any other clients, and where each number comes from.
func (a *Admin) showTenant(x *apiRequest, asked *requestInput) (any, error) {
	var mistakes wire.FieldErrors
	call := asked.call(&mistakes)
	if err := mistakes.Err(); err != nil {
		return nil, err
	}
	view := TenantView{Entitlements: []Entitlement{}, Limits: []TenantLimit{}}
	for _, name := range slices.Sorted(maps.Keys(asked.Attributes)) {
		if asked.Attributes[name] == "" {
			continue
		}
		rows, err := a.entitlements(x.r.Context(), ruledb.EntitlementQuery{Attribute: name, Value: asked.Attributes[name], Limit: maxOfValue})
		if err != nil {
			return nil, err
		}
		view.Entitlements = append(view.Entitlements, rows...)
	}
	x.admin.reveals.note(x)
	snapshot := a.Rules.Live.Load()
	view.Readable = each(snapshot.EntitledLimits(), func(l *rules.EntitledLimit) Readable {
		return Readable{l.Attribute, l.Entitlement, l.Rule.Name, l.Max, l.Default}
	})
	for _, c := range snapshot.Concerning(call, penstock.InstantOf(a.Now()), a.Entitlements) {
		if len(view.Limits) < maxTenantRules {
			view.Limits = append(view.Limits, tenantLimits(&c)...)
		}
	}
	return view, nil
}

func tenantLimits(c *rules.RuleExplanation) (all []TenantLimit) {
	policies := c.Rule.Policies
	var override *int
	if c.Override != rules.NoOverride {
		policies, override = c.Rule.Overrides[c.Override].Policies, &c.Override
	}
	key := keyParts(c.Rule)
	for i, m := range c.Limits {
		all = append(all, TenantLimit{c.Rule.Name, c.Rule.Mode.String(), policies[i], m.String(), key, override, numberOf(&c.Numbers[i])})
	}
	if c.Unlimited {
		all = append(all, TenantLimit{Rule: c.Rule.Name, Mode: c.Rule.Mode.String(), Policy: c.Rule.Name, Text: unlimited, Key: key, Override: override,
			Number: Number{Origin: rules.FromOverride, Until: timeOrNil(c.Rule.Overrides[c.Override].Expires)}})
	}
	return all
}
