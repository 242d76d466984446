package admin

import (
	"context"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
)

// An AuditEntry is one entry of the audit log.
type AuditEntry struct {
	Number  int64     `json:"number"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Action  string    `json:"action"`
	Version int64     `json:"version,omitempty"`
	Detail  Detail    `json:"detail"`
}

// A Detail describes the change in words. It contains the attributes of clients as name="value".
type Detail string

// AuditPage is a page of the audit log.
type AuditPage struct {
	Events []AuditEntry `json:"events"`         // newest first
	Next   int64        `json:"next,omitempty"` // the next page starts before this one
}

func (a *Admin) audit(x *apiRequest) (any, error) {
	db, before, limit, err := a.page(x, a.auditDatabase)
	if err != nil {
		return nil, err
	}
	found, err := db.Audit(x.r.Context(), before, limit)
	if err != nil {
		return nil, err
	}
	page := AuditPage{Events: each(found, func(e *ruledb.Event) AuditEntry {
		return AuditEntry{e.Number, e.At, e.Actor, e.Action, e.Version, Detail(e.Detail)}
	})}
	if n := len(found); n == limit {
		page.Next = found[n-1].Number
	}
	return page, nil
}

// auditDatabase returns the database with the audit log: that of the rules, or that of the users.
func (a *Admin) auditDatabase(ctx context.Context) (*ruledb.DB, error) {
	if a.Rules.Service == nil && a.People != nil {
		return a.People(ctx)
	}
	return a.database(ctx)
}

// record adds a change to the audit log, which is in a database or, without one, in the server log.
// The change has already been made, so a failure to record it is not an error.
func (a *Admin) record(x *apiRequest, action, detail string) {
	if len(detail) > ruledb.MaxMessage {
		detail = strings.ToValidUTF8(detail[:ruledb.MaxMessage], "")
	}
	at := a.Log.With("actor", x.who.String(), "action", action, "detail", detail)
	if a.Rules.Service == nil && a.People == nil {
		at.Info("audit")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), 5*time.Second)
	defer cancel()
	db, err := a.auditDatabase(ctx)
	if err == nil {
		err = db.Record(ctx, ruledb.Event{Actor: x.who.String(), Action: action, Detail: detail})
	}
	if err != nil {
		at.Error("cannot write to the audit log", "error", err)
	}
}
