package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
)

const mistakenRules = `
attributes: {user: {header: X-User}}
rules:
  - {name: typo, key: [user], limits: [1/1m], penalty: {after: 2, within: 1h, bans: [1h]}}
  - {name: other, key: [ip], limits: [{rate: 1/1d, algorithm: fixed_window}], penalty: {after: 1, within: 1h, bans: [1h]}}
  - {name: harmless, key: [path], limits: [100/1m]}
`

// The bans of a rule that was a mistake are lifted together, counted before, audited, and nobody else's are.
func TestBansOfARuleAreLifted(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store admin.Store) {
		s := newTestAdmin(t, setup{rules: mistakenRules, store: store, local: newMemory(t)})
		const banned = 40
		for i := range banned {
			for range 4 {
				s.call("user", fmt.Sprint("u", i))
			}
		}
		for range 3 {
			s.call("ip", "192.0.2.1")
		}
		lift := func(pairs ...any) (found []admin.Ban) {
			t.Helper()
			for cursor := ""; ; {
				page := get[admin.LiftedBans](s, "POST", "/v1/bans/lift", object(append(pairs, "cursor", cursor)...))
				found = append(found, page.Bans...)
				if cursor = page.Next; cursor == "" {
					return found
				}
			}
		}
		isBanned := func() (n int) {
			for i := range banned {
				for _, k := range get[admin.KeyStates](s, "POST", "/v1/keys/show", about("attributes", map[string]string{"user": fmt.Sprint("u", i)})).Keys {
					if k.BannedUntil != nil {
						n++
					}
				}
			}
			return n
		}
		audited := func(want string) {
			t.Helper()
			for _, e := range get[admin.AuditPage](s, "GET", "/v1/audit", "").Events {
				if e.Action == "lift" && strings.Contains(string(e.Detail), want) {
					return
				}
			}
			t.Errorf("%q is not in the audit log", want)
		}
		if found := lift("rule", "typo", "dry_run", true); len(found) != banned || isBanned() != banned {
			t.Errorf("%d would be lifted, and %d are banned", len(found), isBanned())
		}
		hash := lift("rule", "typo", "dry_run", true)[7].Subject
		found := lift("hash", hash)
		audited("rule typo: 1 ban: " + hash)
		if len(found) != 1 || found[0].Rule != "typo" || isBanned() != banned-1 {
			t.Errorf("by hash: %+v, and %d are banned", found, isBanned())
		}
		found = lift("rule", "typo")
		audited("rule typo: 39 bans: ")
		if len(found) != banned-1 || isBanned() != 0 {
			t.Errorf("%d are lifted, and %d are banned", len(found), isBanned())
		}
		if found := lift("all", true); len(found) != 1 || found[0].Rule != "other" {
			t.Errorf("the rest: %+v", found)
		}
		for body, want := range map[string]string{
			object():                                "one of rule, hash and all",
			object("rule", "typo", "all", true):     "one of rule, hash and all",
			object("hash", "nonsense"):              "is not the hash of a key",
			object("hash", strings.Repeat("A", 22)): "is not a key of any rule",
			object("rule", "harmless"):              "has no penalty",
			object("all", true, "cursor", "rule=x"): "is outdated",
		} {
			s.refused("POST", "/v1/bans/lift", body, 400, admin.Invalid, want)
		}
		s.refused("POST", "/v1/bans/lift", object("rule", "nobody"), 404, admin.NotFound, "no rule")
	})
}
