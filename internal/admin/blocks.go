package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/internal/blocks"
	"github.com/penstock-io/penstock/internal/ipform"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
)

// A Block denies all requests with a value of an attribute, for a time.
type Block struct {
	ID     string     `json:"id"`
	Domain string     `json:"domain,omitempty"` // "": every domain
	Key    Attributes `json:"key"`              // one attribute; its value can be a network
	Reason string     `json:"reason"`
	Author string     `json:"author"`
	From   time.Time  `json:"from"`
	Until  time.Time  `json:"until"`
}

// Blocks are the blocks in force.
type Blocks struct {
	Blocks []Block `json:"blocks"` // newest first
	Most   int     `json:"most"`   // there can be
}

// A Blocked is a block that was added, or would be.
type Blocked struct {
	Block
	Unshared []string `json:"unshared"` // why other nodes may not know it yet
	Warnings []string `json:"warnings"`
	Recent   Recent   `json:"recent"`
}

// Recent is how many of the recent requests that this node has kept a block concerns.
type Recent struct {
	Calls   int `json:"calls"`
	Denied  int `json:"denied"`  // that a block would have denied
	Allowed int `json:"allowed"` // of these, that were allowed
}

// A Lifted lists blocks that were lifted before they expired.
type Lifted struct {
	Blocks   []Block  `json:"blocks"`
	Unshared []string `json:"unshared"`
}

func blockOf(b *blocklist.Block) Block {
	return Block{b.ID, b.Domain, Attributes{b.Attribute: b.Value}, b.Reason, b.Author, b.From, b.Until}
}

func (a *Admin) listBlocks(*apiRequest) (any, error) {
	return Blocks{each(a.Blocks.InForce(), blockOf), blocklist.MaxBlocks}, nil
}

// addBlock blocks a key, or says what that would do.
func (a *Admin) addBlock(x *apiRequest, asked *struct {
	requestInput
	Duration string `json:"duration"`
	Reason   string `json:"reason"`
	Preview  bool   `json:"preview"`
}) (any, error) {
	var mistakes wire.FieldErrors
	b := asked.block(&mistakes)
	b.Reason, b.Author = strings.TrimSpace(asked.Reason), x.who.String()
	length, err := rules.ParseDuration(asked.Duration)
	if err != nil || length < blocklist.MinLength || length > blocklist.MaxLength {
		mistakes.Add("duration", "invalid duration %.32q: must be from %v to %v, for example 1h", asked.Duration, blocklist.MinLength, rules.Duration(blocklist.MaxLength))
	}
	if len(b.Reason) == 0 || len(b.Reason) > blocklist.MaxText {
		mistakes.Add("reason", "has %d bytes, must have from 1 to %d: the reason, for other operators", len(b.Reason), blocklist.MaxText)
	}
	if err := mistakes.Err(); err != nil {
		return nil, err
	}
	told := &Blocked{Unshared: []string{}, Warnings: a.blockWarnings(b), Recent: a.recentUnder(b)}
	if asked.Preview {
		b.From = a.Now().UTC()
		b.Until = b.From.Add(length)
		told.Block = blockOf(b)
		return told, nil
	}
	added, unshared, err := a.Blocks.Add(x.r.Context(), *b, length)
	switch {
	case errors.Is(err, blocks.ErrFull):
		return nil, refuse(http.StatusConflict, Conflict, err.Error())
	case err != nil:
		return nil, invalid("%v", err)
	}
	told.Block, told.Unshared = blockOf(&added), texts(unshared)
	a.record(x, "block", fmt.Sprintf("%s for %v: %s", keyText(&added), rules.Duration(length), added.Reason))
	return told, nil
}

// liftBlock ends a block, given by its ID or its key.
func (a *Admin) liftBlock(x *apiRequest, asked *struct {
	requestInput
	ID string `json:"id"`
}) (any, error) {
	which := func(b *blocklist.Block) bool { return b.ID == asked.ID }
	if asked.ID == "" {
		var mistakes wire.FieldErrors
		key := asked.block(&mistakes)
		if err := mistakes.Err(); err != nil {
			return nil, err
		}
		which = key.SameKey
	}
	lifted, unshared, err := a.Blocks.Lift(x.r.Context(), which, x.who.String())
	if err != nil {
		return nil, refuse(http.StatusNotFound, NotFound, err.Error())
	}
	for i := range lifted {
		a.record(x, "lift-block", keyText(&lifted[i]))
	}
	return Lifted{each(lifted, blockOf), texts(unshared)}, nil
}

// keyText names a block for the audit log. The value is quoted, since clients choose it.
func keyText(b *blocklist.Block) string { return fmt.Sprintf("%s=%.200q", b.Attribute, b.Value) }

func texts(errs []error) []string {
	return each(errs, func(err *error) string { return (*err).Error() })
}

// block returns the key that is to be blocked: one attribute. It appends errors to mistakes.
func (q *requestInput) block(mistakes *wire.FieldErrors) *blocklist.Block {
	call := q.call(mistakes)
	b := &blocklist.Block{Domain: q.Domain}
	if len(call.Attributes) != 1 {
		mistakes.Add("attributes", `must be one attribute, for example {"ip": "198.51.100.7"}, got %d`, len(call.Attributes))
		return b
	}
	b.Attribute, b.Value = call.Attributes[0].Name, blocklist.Canonical(call.Attributes[0].Value)
	if b.Value == "" {
		mistakes.Add(fmt.Sprintf("attributes.%.32s", b.Attribute), "is empty")
	} else if b.Attribute == "ip" && !blocklist.IsNetwork(b.Value) {
		mistakes.Add("attributes.ip", "%.64q is not an address or a network, for example 198.51.100.7 or 198.51.100.0/24", b.Value)
	}
	return b
}

// blockWarnings says why a block may not do what is wanted.
func (a *Admin) blockWarnings(b *blocklist.Block) []string {
	warnings := []string{}
	known := a.knownAttributes()
	if !slices.ContainsFunc(known, func(k KnownAttribute) bool { return k.Name == b.Attribute }) {
		names := each(known, func(k *KnownAttribute) string { return k.Name })
		warnings = append(warnings, fmt.Sprintf("no rule reads the attribute %q: at the gateway it never matches; rules read %s", b.Attribute, strings.Join(names, ", ")))
	}
	if network, ok := blocklist.Network(b.Value); ok && b.Attribute == "ip" && !ipform.HasClients(network) {
		warnings = append(warnings, fmt.Sprintf("at the gateway the ip of a client is the first address of its /%d unless client_ip.ipv6_prefix is larger, so this never matches: block %v",
			ipform.ClientBits, ipform.Network(network.Addr(), ipform.ClientBits)))
	}
	return warnings
}

// recentUnder counts the recent requests that a block would have denied.
func (a *Admin) recentUnder(b *blocklist.Block) (found Recent) {
	var list blocklist.List
	list.Set([]blocklist.Block{*b})
	for _, e := range a.Traffic.Recent(traffic.Filter{}, maxReplayed) {
		found.Calls++
		if list.Find(&penstock.Call{Domain: e.Domain, Attributes: e.Attributes}) == nil {
			continue
		}
		found.Denied++
		if e.Allowed {
			found.Allowed++
		}
	}
	return found
}

// blockFor returns the block that holds for a request, or nil.
func (a *Admin) blockFor(call *penstock.Call) *blocklist.Block {
	b := a.Blocks.List().Find(call)
	if b == nil || !b.Holds(a.Now()) {
		return nil
	}
	return b
}
