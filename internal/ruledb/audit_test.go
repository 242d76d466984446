package ruledb

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
)

func TestAuditCannotBeEdited(t *testing.T) {
	t.Parallel()
	statements := []string{
		`UPDATE rule_versions SET author = 'eve'`,
		`UPDATE rule_versions SET document = document WHERE number = 1`,
		`UPDATE rule_versions SET number = 9 WHERE number = 2`,
		`DELETE FROM rule_versions`,
		`DELETE FROM rule_versions WHERE number = 2`,
		`UPDATE rule_audit SET actor = 'eve'`,
		`DELETE FROM rule_audit`,
		`DELETE FROM rule_audit WHERE number = (SELECT max(number) FROM rule_audit)`,
		`INSERT INTO rule_versions SELECT * FROM rule_versions WHERE number = 2`,
	}
	own := map[string][]string{
		"sqlite": {
			`INSERT OR REPLACE INTO rule_versions SELECT number, at, 'eve', message, restores, digest, document FROM rule_versions WHERE number = 2`,
			`INSERT OR REPLACE INTO rule_audit SELECT number, at, 'eve', action, version, detail FROM rule_audit`,
			`UPDATE OR IGNORE rule_versions SET author = 'eve'`,
			`INSERT INTO rule_versions (number, at, author, message, digest, document) VALUES (1, 1, 'eve', '', x'', x'') ON CONFLICT (number) DO UPDATE SET author = 'eve'`,
		},
		"postgres": {
			`TRUNCATE rule_audit`,
			`TRUNCATE rule_versions CASCADE`,
			`INSERT INTO rule_versions (number, at, author, message, digest, document) VALUES (1, 1, 'eve', '', '', '') ON CONFLICT (number) DO UPDATE SET author = 'eve'`,
			`MERGE INTO rule_audit a USING rule_versions v ON a.version = v.number WHEN MATCHED THEN UPDATE SET actor = 'eve'`,
		},
	}
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, "a")
		save(t, db, 1, "b")
		before := contents(t, db)
		kind, _, _ := strings.Cut(source, ":")
		for _, statement := range slices.Concat(statements, own[kind]) {
			if _, err := db.sql.ExecContext(t.Context(), statement); err == nil {
				t.Errorf("not refused: %s", statement)
			}
			if after := contents(t, db); !cmp.Equal(before, after) {
				t.Fatalf("%s:\n%s", statement, cmp.Diff(before, after))
			}
		}
		save(t, db, 2, "c") // and it continues
	})
}

type fullFilter struct {
	Versions []Version
	Audit    []Event
}

func contents(t *testing.T, db *DB) (all fullFilter) {
	t.Helper()
	var err error
	if all.Versions, err = db.History(t.Context(), 0, maxPage); err != nil {
		t.Fatal(err)
	}
	for i, v := range all.Versions {
		if all.Versions[i], err = db.Version(t.Context(), v.Number); err != nil {
			t.Fatal(err)
		}
	}
	if all.Audit, err = db.Audit(t.Context(), 0, maxPage); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRecord(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, "a")
		for _, e := range []Event{
			{Actor: "bob", Action: "lift-ban", Detail: "login-per-ip 192.0.2.1"},
			{Actor: "bob", Action: "export", Version: 1},
		} {
			if err := db.Record(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		audit, err := db.Audit(t.Context(), 0, 2)
		if err != nil || len(audit) != 2 || audit[0].Action != "export" || audit[0].Version != 1 || audit[0].Number <= audit[1].Number ||
			audit[1].Detail != "login-per-ip 192.0.2.1" || audit[1].Version != 0 || audit[1].At.IsZero() {
			t.Errorf("%+v, %v", audit, err)
		}
		if rest, err := db.Audit(t.Context(), audit[1].Number, 2); err != nil || len(rest) != 1 || rest[0].Action != ActionSave {
			t.Errorf("the next page: %+v, %v", rest, err)
		}
		for _, e := range []Event{
			{Actor: "bob"},
			{Action: "export"},
			{Actor: "bob", Action: "Export it"},
			{Actor: "bob", Action: strings.Repeat("a", maxAction+1)},
			{Actor: "bob", Action: "export", Version: -1},
			{Actor: "bob", Action: "export", Detail: "\xff"},
			{Actor: "bob", Action: ActionSave},
			{Actor: "bob", Action: ActionRollback},
		} {
			if err := db.Record(t.Context(), e); !errors.Is(err, penstock.ErrInvalid) {
				t.Errorf("%+v: %v", e, err)
			}
		}
		if err := db.Record(t.Context(), Event{Actor: "bob", Action: "export", Version: 99}); !errors.Is(err, ErrNotFound) {
			t.Errorf("an event about a version that never was: %v", err)
		}
	})
}
