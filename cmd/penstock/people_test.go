package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// The first user is made with the token of the configuration, and everything after that with tokens and passwords, in
// the database of the rules and in one of its own. All of it is there after a restart.
func TestUsersAndTokensCommands(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{
		"rules in a database": "rules: {database: \"sqlite:" + filepath.Join(t.TempDir(), "rules.db") + "\"}\n",
		"rules in a file":     "admin: {database: \"sqlite:" + filepath.Join(t.TempDir(), "people.db") + "\"}\nrules: {file: " + nodetest.RulesFile(t, keyRules) + "}\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := startServe(t, yaml)
			says := func(code int, stdout, stderr string, args ...string) string {
				t.Helper()
				got, out, errs := p.run(t, args...)
				if got != code || !strings.Contains(out, stdout) || !strings.Contains(errs, stderr) {
					t.Errorf("%v: exit status %d\n%s%s", args, got, out, errs)
				}
				return out
			}
			says(exitYes, "NAME  ROLE", "", "users", "list")
			made := strings.TrimSpace(says(exitYes, "", "ann is admin\nThis password is not shown again:", "users", "add", "ann", "--role", "admin"))
			if len(made) < 20 {
				t.Errorf("the password is %q", made)
			}
			file := filepath.Join(t.TempDir(), "password")
			if err := os.WriteFile(file, []byte("correct horse battery\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			says(exitYes, "", "bob is viewer", "users", "add", "bob", "--role", "viewer", "--password-file", file)
			says(exitYes, "", "bob is operator", "users", "role", "bob", "operator")
			says(exitNo, "", "last admin", "users", "role", "ann", "viewer")
			says(exitNo, "", "a user with this name already exists", "users", "add", "bob", "--role", "viewer")
			says(exitNo, "", "must be viewer, operator or admin", "users", "add", "eve", "--role", "root")
			says(exitUsage, "", "role", "users", "add", "eve")
			says(exitUsage, "", "no such file", "users", "password", "bob", "--password-file", file+"x")

			for user, secret := range map[string]string{"ann": made, "bob": "correct horse battery"} {
				if answer, body := p.request(t, "POST", "admin", "/v1/session", `{"user": "`+user+`", "password": "`+secret+`"}`, "Content-Type", "application/json"); answer.StatusCode != 200 {
					t.Errorf("login of %s: %s", user, body)
				}
			}
			token := strings.TrimSpace(says(exitYes, "pen_", "is not shown again", "tokens", "create", "prometheus", "--role", "viewer", "--scope", "metrics", "--days", "0"))
			says(exitYes, "prometheus", "", "tokens", "list")
			says(exitNo, "", "requires the scope status, the token has metrics", "status", "--token", token)
			deploy := strings.TrimSpace(says(exitYes, "pen_", "", "tokens", "create", "deploy", "--role", "operator", "--days", "1"))
			says(exitYes, "", "", "status", "--token", deploy)
			says(exitNo, "", "more than your own role", "tokens", "create", "x", "--role", "admin", "--token", deploy)
			says(exitNo, "", "requires the role admin, yours is operator", "users", "list", "--token", deploy)

			p.ends(t)
			p = startServe(t, yaml)
			var all admin.Tokens
			if err := json.Unmarshal([]byte(says(exitYes, "", "", "tokens", "list", "-o", "json")), &all); err != nil || len(all.Tokens) != 2 {
				t.Fatalf("%v %+v", err, all)
			}
			for _, one := range all.Tokens {
				if (one.Name == "deploy") != (one.Expires != nil) || one.Expired || !strings.HasPrefix(one.By, "admin.token ") {
					t.Errorf("%+v", one)
				}
				if one.Name == "deploy" {
					says(exitYes, "", "revoked", "tokens", "revoke", one.ID)
				}
			}
			says(exitFailed, "", "unknown token", "status", "--token", deploy)
			says(exitNo, "", "does not exist", "tokens", "revoke", "none1234")
			says(exitYes, "", "bob is removed", "users", "remove", "bob")
			says(exitNo, "", "does not exist", "users", "remove", "bob")
			says(exitYes, "ann   admin", "", "users", "list")

			var audit admin.AuditPage
			_, body := p.request(t, "GET", "admin", "/v1/audit", "", "Authorization", "Bearer "+p.token(t))
			if err := json.Unmarshal([]byte(body), &audit); err != nil || audit.Events[0].Action != "user-remove" || audit.Events[0].Detail != "bob, who was operator" {
				t.Errorf("%v %s", err, body)
			}
		})
	}
}

// usersCommand is a command in the page about users, without its comment and redirection.
var usersCommand = regexp.MustCompile(`(?m)^(penstock .*?)( +#.*| > .*)?$`)

// The commands of the page about users run as they stand, in their order.
func TestUsersPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/users.md")
	if err != nil {
		t.Fatal(err)
	}
	p := startServe(t, "rules: {database: \"sqlite:"+filepath.Join(t.TempDir(), "rules.db")+"\"}\n")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("secret.txt", []byte("correct horse battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := usersCommand.FindAllStringSubmatch(string(page), -1)
	if len(lines) < 9 {
		t.Errorf("only %d commands: %v", len(lines), lines)
	}
	for _, line := range lines {
		if code, out, errs := p.run(t, strings.Fields(line[1])[1:]...); code != exitYes {
			t.Errorf("%s: exit status %d\n%s%s", line[1], code, out, errs)
		}
	}
}
