package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/password"
)

// roleNames are the roles of users and tokens.
var roleNames = []string{"viewer", "operator", "admin"}

func newUsersCommand(a *app) *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "users",
		Short: "Manage the users of the admin API and the console",
		Long: `Manage the users of the admin API and the console. They are stored in the rules database (or
admin.database) and log in with a password on every node that uses it.

A viewer reads, with client identifiers hashed. An operator also sees identifiers, changes
rules, resets counters and bans clients. An admin also manages users and tokens.

The server's admin.token creates the first user.`,
		Example: `  penstock users add ann --role admin           # prints a password once
  penstock users list
  penstock users role bob operator
  penstock users password bob --password-file secret.txt
  penstock users remove bob`,
	}, newUsersListCommand(a), newUsersAddCommand(a), newUsersRoleCommand(a), newUsersPasswordCommand(a), newUsersRemoveCommand(a))
}

func newUsersListCommand(a *app) *cobra.Command {
	return adminCommand(a, &cobra.Command{
		Use:   "list",
		Short: "List the users",
		Args:  cobra.NoArgs,
	}, get("/v1/users"), func(found *admin.Users) error {
		return a.writeTable("NAME\tROLE\tCREATED\tLAST LOGIN", func(table io.Writer) {
			for _, u := range found.Users {
				fmt.Fprintf(table, "%s\t%v\t%s\t%s\n", u.Name, u.Role, u.Created.UTC().Format(time.RFC3339), timeOr(u.Login, "never"))
			}
		})
	})
}

// timeOr formats a time, or says that there is none.
func timeOr(t *time.Time, none string) string {
	if t == nil {
		return none
	}
	return t.UTC().Format(time.RFC3339)
}

// passwordFlags say where a new password comes from. It is never an argument, which other users could read.
type passwordFlags struct{ file string }

func (f *passwordFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "password-file", "", "`file` that contains the password; - is stdin; default: the server generates one and prints it once")
}

// read returns the password, or "" if the server is to make one.
func (f *passwordFlags) read(a *app) (string, error) {
	switch f.file {
	case "":
		return "", nil
	case "-":
		text, err := io.ReadAll(io.LimitReader(a.stdin, password.MaxBytes+3))
		return nonEmpty(string(text), "stdin", err)
	}
	text, warning, err := config.ReadSecretFile(f.file)
	if warning != "" {
		a.warn("--password-file: " + warning)
	}
	return nonEmpty(text, f.file, err)
}

// nonEmpty removes the line end from a password, and refuses an empty one: the server would make another.
func nonEmpty(text, from string, err error) (string, error) {
	text = strings.TrimRight(text, "\r\n")
	if err == nil && text == "" {
		err = fmt.Errorf("%s contains no password", from)
	}
	if err != nil {
		return "", misused("--password-file: %w", err)
	}
	return text, nil
}

func newUsersAddCommand(a *app) *cobra.Command {
	var secret passwordFlags
	var role string
	c := adminCommand(a, &cobra.Command{
		Use:   "add NAME --role ROLE",
		Short: "Add a user",
		Example: `  penstock users add ann --role admin
  penstock users add bob --role viewer --password-file secret.txt`,
		Args: cobra.ExactArgs(1),
	}, func(args []string) (adminRequest, error) {
		given, err := secret.read(a)
		return adminRequest{http.MethodPost, "/v1/users", map[string]any{"name": args[0], "role": role, "password": given}}, err
	}, a.tellUserChanged)
	secret.add(c)
	c.Flags().StringVar(&role, "role", "", "viewer, operator or admin")
	_ = c.MarkFlagRequired("role") // cannot fail: the flag exists
	completeValues(c, "role", roleNames...)
	return c
}

func newUsersRoleCommand(a *app) *cobra.Command {
	return adminCommand(a, &cobra.Command{
		Use:   "role NAME ROLE",
		Short: "Change the role of a user",
		Long: `Change the role of a user. It applies to open sessions and tokens immediately, and on other
nodes within two seconds. The last admin cannot be demoted while there are other users.`,
		Example: `  penstock users role bob operator`,
		Args:    cobra.ExactArgs(2),
	}, func(args []string) (adminRequest, error) {
		return adminRequest{http.MethodPut, "/v1/users/" + url.PathEscape(args[0]), map[string]any{"role": args[1]}}, nil
	}, a.tellUserChanged)
}

func newUsersPasswordCommand(a *app) *cobra.Command {
	var secret passwordFlags
	c := adminCommand(a, &cobra.Command{
		Use:   "password NAME",
		Short: "Set the password of a user",
		Long:  `Set the password of a user and end all sessions of the user. Tokens remain valid.`,
		Example: `  penstock users password bob
  penstock users password bob --password-file secret.txt`,
		Args: cobra.ExactArgs(1),
	}, func(args []string) (adminRequest, error) {
		given, err := secret.read(a)
		return adminRequest{http.MethodPut, "/v1/users/" + url.PathEscape(args[0]) + "/password", map[string]any{"password": given}}, err
	}, a.tellUserChanged)
	secret.add(c)
	return c
}

// tellUserChanged prints a change of one user. A password that the server made is the only data.
func (a *app) tellUserChanged(changed *admin.NewPassword) error {
	fmt.Fprintf(a.stderr, "%s is %v\n", changed.Name, changed.Role)
	if changed.Password != "" {
		fmt.Fprintln(a.stderr, "This password is not shown again:")
		fmt.Fprintln(a.stdout, changed.Password)
	}
	return nil
}

func newUsersRemoveCommand(a *app) *cobra.Command {
	return removeCommand[admin.Users](a, &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a user",
		Long: `Remove a user, end the user's sessions and revoke the user's tokens, on other nodes within two
seconds. The last admin cannot be removed while there are other users.`,
		Example: `  penstock users remove bob`,
	}, "/v1/users/", map[string]any{}, "%s is removed\n")
}

// removeCommand completes a command that removes the user or token that its argument names. With -o json it prints
// those that are left.
func removeCommand[T any](a *app, c *cobra.Command, path string, body any, done string) *cobra.Command {
	var name string
	c.Args = cobra.ExactArgs(1)
	return adminCommand(a, c, func(args []string) (adminRequest, error) {
		name = args[0]
		return adminRequest{http.MethodDelete, path + url.PathEscape(name), body}, nil
	}, func(*T) error { return nil }, func(*T) { fmt.Fprintf(a.stderr, done, name) })
}
