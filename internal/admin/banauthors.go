package admin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules"
)

// auditedBans are the bans by operators in the latest part of the audit log, newest first. A store keeps only when a
// ban ends.
type auditedBans []ruledb.Event

// searchedAudit is how many entries of the audit log are searched for bans.
const searchedAudit = 1000

// bansByHand returns the bans in the audit log. Without a database, or while it is down, there are none.
func (a *Admin) bansByHand(ctx context.Context) auditedBans {
	if a.Rules.Service == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	db, err := a.Rules.Service.Database.DB(ctx)
	if err != nil {
		return nil
	}
	all, err := db.Audit(ctx, 0, searchedAudit)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(e ruledb.Event) bool { return e.Action != "ban" })
}

// of returns who imposed a ban and why. A ban whose end no entry explains was imposed by the rule's penalty.
func (all auditedBans) of(b *Ban) (author, reason string) {
	key := (&ChangedKey{Rule: b.Rule, Key: EchoedAttributes(b.Key)}).String()
	for i := range all {
		e := &all[i]
		length, rest, ok := strings.Cut(strings.TrimPrefix(e.Detail, "for "), " ")
		after, isKey := strings.CutPrefix(rest, key)
		d, err := rules.ParseDuration(length)
		if !ok || !isKey || err != nil {
			continue
		}
		const clocks = time.Minute // between the node's clock and the store's
		if difference := b.Until.Sub(e.At.Add(d)); difference > -clocks && difference < clocks {
			return e.Actor, strings.TrimPrefix(after, ": ")
		}
	}
	return "", ""
}
