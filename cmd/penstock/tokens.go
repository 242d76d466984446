package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
)

func newTokensCommand(a *app) *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "tokens",
		Short: "Manage API tokens of the admin API",
		Long: `Manage API tokens for Prometheus, deployments and scripts. A token has a role, which never
exceeds its user's role, and can be limited to scopes: the first parts of the permitted
paths, such as rules or metrics. The server stores only its hash.

The tokens of a user are revoked when the user is removed. A service token belongs to no user
and remains valid; only admins can create one.`,
		Example: `  penstock tokens create prometheus --role viewer --scope metrics --days 365 --service
  penstock tokens create deploy --role operator --scope rules --days 90
  penstock tokens list
  penstock tokens revoke k3x9q2ab`,
	}, newTokensListCommand(a), newTokensCreateCommand(a), newTokensRevokeCommand(a))
}

func newTokensListCommand(a *app) *cobra.Command {
	return adminCommand(a, &cobra.Command{
		Use:   "list",
		Short: "List your tokens, or all if you are an admin",
		Args:  cobra.NoArgs,
	}, get("/v1/tokens"), func(found *admin.Tokens) error {
		return a.writeTable("ID\tNAME\tUSER\tROLE\tSCOPES\tEXPIRES\tLAST USED", func(table io.Writer) {
			for _, t := range found.Tokens {
				expires := timeOr(t.Expires, "never")
				if t.Expired {
					expires += " (expired)"
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%v\t%s\t%s\t%s\n", t.ID, t.Name, cmp.Or(t.User, "-"), t.Role,
					cmp.Or(strings.Join(t.Scopes, ","), "all"), expires, timeOr(t.Used, "never"))
			}
		})
	})
}

func newTokensCreateCommand(a *app) *cobra.Command {
	var asked struct {
		Name    string   `json:"name"`
		Role    string   `json:"role"`
		Scopes  []string `json:"scopes"`
		Days    int      `json:"days"`
		Service bool     `json:"service"`
	}
	c := adminCommand(a, &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Create a token and print it once",
		Long: `Create a token. It is printed once, on stdout. It cannot exceed the role, scopes and expiry
of the credentials you use.`,
		Example: `  penstock tokens create deploy --role operator --scope rules --days 90
  penstock tokens create prometheus --role viewer --scope metrics --days 0 --service > token`,
		Args: cobra.ExactArgs(1),
	}, func(args []string) (adminRequest, error) {
		asked.Name = args[0]
		return adminRequest{http.MethodPost, "/v1/tokens", asked}, nil
	}, func(made *admin.NewToken) error {
		fmt.Fprintf(a.stderr, "created %s (%s). This token is not shown again:\n", made.Name, made.ID)
		fmt.Fprintln(a.stdout, made.Secret)
		return nil
	})
	c.Flags().StringVar(&asked.Role, "role", "", "viewer, operator or admin; at most your own")
	c.Flags().StringSliceVar(&asked.Scopes, "scope", nil, "permitted `scope`, such as rules or metrics; may be repeated; default: everything that the role permits")
	c.Flags().IntVar(&asked.Days, "days", 90, "`days` until the token expires; 0: never")
	c.Flags().BoolVar(&asked.Service, "service", false, "create a service token, which belongs to no user")
	_ = c.MarkFlagRequired("role") // cannot fail: the flag exists
	completeValues(c, "role", roleNames...)
	return c
}

func newTokensRevokeCommand(a *app) *cobra.Command {
	return removeCommand[admin.Tokens](a, &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke a token",
		Long:    `Revoke a token by its ID (see penstock tokens list). Other nodes reject it within two seconds.`,
		Example: `  penstock tokens revoke k3x9q2ab`,
	}, "/v1/tokens/", nil, "%s is revoked\n")
}
