package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// KnownAttributes are the attributes that rules read.
type KnownAttributes struct {
	Attributes []KnownAttribute `json:"attributes"`
}

// A KnownAttribute is an attribute that rules read, those of keys first.
type KnownAttribute struct {
	Name  string   `json:"name"`
	Rules []string `json:"rules"` // whose key has it
}

func (a *Admin) listAttributes(*apiRequest) (any, error) {
	return KnownAttributes{a.knownAttributes()}, nil
}

// knownAttributes returns the attributes of keys by how many rules have them, then the others that requests have.
func (a *Admin) knownAttributes() []KnownAttribute {
	snapshot, byName := a.Rules.Live.Load(), map[string][]string{"ip": {}, "host": {}, "path": {}, "method": {}}
	for _, s := range snapshot.Sources {
		byName[s.Attribute] = []string{}
	}
	for _, r := range snapshot.Rules {
		for _, part := range r.Key {
			byName[part.Name] = append(byName[part.Name], r.Name)
		}
	}
	known := []KnownAttribute{}
	for name, of := range byName {
		known = append(known, KnownAttribute{name, of})
	}
	slices.SortFunc(known, func(a, b KnownAttribute) int {
		return cmp.Or(cmp.Compare(len(b.Rules), len(a.Rules)), cmp.Compare(a.Name, b.Name))
	})
	return known
}

// Clients are the clients that a value can name.
type Clients struct {
	Clients []Client `json:"clients"` // the most likely first
}

// A Client is a client that a value names as one of its attributes.
type Client struct {
	Attributes  Attributes `json:"attributes"`
	Rules       []string   `json:"rules"`   // that tell clients apart by these attributes
	Recent      int        `json:"recent"`  // recent requests that the nodes have kept
	Denied      int        `json:"denied"`  // of these
	Counted     bool       `json:"counted"` // a rule has counted it
	BannedUntil *time.Time `json:"banned_until,omitempty"`
	Block       *Block     `json:"block,omitempty"`
}

// maxClients bounds the number of clients that a value names, each of which is looked up in the store.
const maxClients = 20

// findKey finds the clients that a bare value names: an address, a user or a token, whatever attribute it is.
func (a *Admin) findKey(x *apiRequest, asked *struct {
	Value string `json:"value"`
}) (any, error) {
	value := blocklist.Canonical(strings.TrimSpace(asked.Value))
	if value == "" || len(value) > bounds.AttributeValue {
		return nil, mistake("value", "must be an address, a user, a token or another value of an attribute")
	}
	told := Clients{[]Client{}}
	for _, c := range a.seenWith(x.r.Context(), value) {
		if err := a.lookUp(x, &c); err != nil {
			return nil, err
		}
		if c.Recent > 0 || c.Counted || c.BannedUntil != nil || c.Block != nil {
			told.Clients = append(told.Clients, c)
		}
	}
	slices.SortStableFunc(told.Clients, func(a, b Client) int { return cmp.Compare(b.Recent, a.Recent) })
	return told, nil
}

// seenWith returns the clients that have the value as an attribute: by it alone, and with the other attributes of
// rules' keys in recent requests.
func (a *Admin) seenWith(ctx context.Context, value string) []Client {
	found, order := map[string]*Client{}, []string{}
	client := func(of Attributes) *Client {
		id := ""
		for _, name := range slices.Sorted(maps.Keys(of)) {
			id += name + "\x00" + of[name] + "\x00"
		}
		if found[id] == nil {
			found[id] = &Client{Attributes: of, Rules: []string{}}
			order = append(order, id)
		}
		return found[id]
	}
	for _, known := range a.knownAttributes() {
		client(Attributes{known.Name: value})
	}
	for _, e := range a.Fleet.Recent(ctx, traffic.Filter{}, maxNames, "") {
		seen := map[*Client]bool{}
		for _, part := range e.Attributes {
			if part.Value == value {
				seen[client(Attributes{part.Name: value})] = true
			}
		}
		for _, k := range e.Keys {
			if slices.ContainsFunc(k.Key, func(part penstock.Attribute) bool { return part.Value == value }) {
				seen[client(attributesOf(k.Key))] = true
			}
		}
		for c := range seen {
			c.Recent++
			if !e.Allowed {
				c.Denied++
			}
		}
	}
	return each(order[:min(len(order), maxClients)], func(id *string) Client { return *found[*id] })
}

// lookUp adds what the store and the blocks say about a client.
func (a *Admin) lookUp(x *apiRequest, c *Client) error {
	call := (&requestInput{Attributes: c.Attributes}).call(new(wire.FieldErrors))
	if b := a.blockFor(call); b != nil {
		c.Block = new(blockOf(b))
	}
	for _, considered := range a.Rules.Live.Load().Keyed(call, penstock.InstantOf(a.Now()), a.Entitlements) {
		if !hasKey(considered) {
			continue
		}
		c.Rules = append(c.Rules, considered.Rule.Name)
		s := newSubject(considered)
		seen, err := storage.Inspect(x.r.Context(), a.Store, 0, []storage.Group{s.group()}, 0)
		if err != nil {
			return err
		}
		if until := instantOrNil(seen[0].Group.BannedUntil); until != nil {
			c.BannedUntil = until
		}
		c.Counted = c.Counted || slices.ContainsFunc(seen[0].Decisions, func(d penstock.Decision) bool { return d.Used > 0 })
	}
	return nil
}

// hasKey reports whether a rule tells this client apart from others.
func hasKey(c rules.RuleExplanation) bool {
	return slices.ContainsFunc(c.Key, func(part penstock.Attribute) bool { return part.Value != "" })
}
