package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
)

func newEntitlementsCommand(a *app) *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "entitlements",
		Short: "Set limits per tenant or plan",
		Long: `Set limits per tenant or plan. If a rule has a rate such as "{tenant.requests}/1h", its
number comes from the entitlements table: the row for the client's tenant and the limit
"requests".

The table is in the rules database. These commands use the admin API of a running server,
with the token in PENSTOCK_TOKEN. All nodes apply a change within a second. Counters keep
their state, and no version of the rules is created.`,
		Example: `  export PENSTOCK_TOKEN=…
  penstock entitlements set tenant=acme requests=5000 exports=10
  penstock entitlements set tenant=acme requests=20000 --until 2027-01-01T00:00:00Z
  penstock entitlements get tenant=acme
  penstock entitlements delete tenant=acme requests
  penstock entitlements import billing.csv
  penstock entitlements export > entitlements.csv`,
	}, newEntitlementsListCommand(a), newEntitlementsGetCommand(a), newEntitlementsSetCommand(a), newEntitlementsDeleteCommand(a),
		newEntitlementsImportCommand(a), newEntitlementsExportCommand(a))
}

// entitlementPage is how many rows one request reads or changes.
const entitlementPage = 5000

// eachEntitlement calls visit for rows in order, until it returns an error.
func (c *adminClient) eachEntitlement(ctx context.Context, q url.Values, visit func(*admin.Entitlement) error) error {
	q.Set("limit", strconv.Itoa(entitlementPage))
	for {
		var page admin.Entitlements
		if err := c.fetch(ctx, http.MethodGet, "/v1/entitlements?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		for i := range page.Entitlements {
			if err := visit(&page.Entitlements[i]); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.Set("cursor", page.Next)
	}
}

func newEntitlementsListCommand(a *app) *cobra.Command {
	var attribute, prefix string
	c := listCommand(a, &cobra.Command{
		Use:   "list",
		Short: "List entitlements",
		Example: `  penstock entitlements list --attribute plan
  penstock entitlements list --prefix acme -o json`,
		Args: cobra.NoArgs,
	}, "/v1/entitlements", func(_ []string, most int) url.Values {
		return url.Values{"attribute": {attribute}, "prefix": {prefix}, "limit": {strconv.Itoa(min(most+1, entitlementPage))}}
	}, func(page *admin.Entitlements) ([]admin.Entitlement, string) {
		return page.Entitlements, page.Next
	}, func(all []admin.Entitlement, note string) error {
		return a.tellPages(admin.Entitlements{Entitlements: all}, entitlementTable, spelling.Count(len(all), "entitlement")+note, entitlementRows(all))
	})
	c.Flags().StringVar(&attribute, "attribute", "", "only rows of this `attribute`, for example plan")
	c.Flags().StringVar(&prefix, "prefix", "", "only values that begin with this `text`")
	return c
}

const entitlementTable = "FOR\tLIMIT\tNUMBER\tUNTIL\tCHANGED\tBY"

func entitlementRows(all []admin.Entitlement) func(io.Writer) {
	return func(table io.Writer) {
		for i := range all {
			e := &all[i]
			fmt.Fprintf(table, "%s=%s\t%s\t%d\t%s\t%s\t%s\n", e.Attribute, spelling.Printable(e.Value), e.Limit, e.Number, timeOr(e.Until, "-"), e.At.UTC().Format(time.RFC3339), e.Author)
		}
	}
}

func newEntitlementsGetCommand(a *app) *cobra.Command {
	return adminCommand(a, &cobra.Command{
		Use:   "get name=value...",
		Short: "Show the limits of a tenant and the source of each number",
		Long: `Show the limits of clients with these attributes and the source of each number: the rules,
an override, an entitlement, a claim, or the default because the data has no valid number.
Rules that count by additional attributes are included.`,
		Example: `  penstock entitlements get tenant=acme
  penstock entitlements get tenant=acme plan=gold -o json`,
		Args: cobra.MinimumNArgs(1),
	}, func(args []string) (adminRequest, error) {
		question, err := (&callerFlags{}).question(args)
		return adminRequest{http.MethodPost, "/v1/entitlements/show", question}, err
	}, a.tellTenant)
}

func (a *app) tellTenant(view *admin.TenantView) error {
	if len(view.Entitlements) > 0 {
		if err := a.writeTable(entitlementTable, entitlementRows(view.Entitlements)); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
	}
	return a.writeTable("RULE\tLIMIT\tNUMBER FROM\tUNTIL", func(table io.Writer) {
		for i := range view.Limits {
			l := &view.Limits[i]
			from := string(l.Number.Origin)
			switch {
			case l.Number.Why != "":
				from += ": " + l.Number.Why
			case l.Number.Source != "":
				from += " " + l.Number.Source
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.Policy, l.Text, from, timeOr(l.Number.Until, "-"))
		}
	})
}

// An entitlementChange is the body of a change.
type entitlementChange struct {
	Set    []entitlementRow `json:"set,omitempty"`
	Delete []entitlementRow `json:"delete,omitempty"`
	Note   string           `json:"note,omitempty"`
}

// An entitlementRow is a row to set, or to delete if it has no number.
type entitlementRow struct {
	Attribute string     `json:"attribute"`
	Value     string     `json:"value"`
	Limit     string     `json:"limit,omitempty"`
	Number    *int64     `json:"number,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
}

// key identifies the row.
func (r *entitlementRow) key() [3]string { return [3]string{r.Attribute, r.Value, r.Limit} }

func newEntitlementsSetCommand(a *app) *cobra.Command {
	var until, note string
	c := adminCommand(a, &cobra.Command{
		Use:   "set attribute=value limit=number...",
		Short: "Set limits of a tenant or a plan",
		Example: `  penstock entitlements set tenant=acme requests=5000 exports=10
  penstock entitlements set plan=trial requests=100 --note "until the launch" --until 2027-01-01T00:00:00Z`,
		Args: cobra.MinimumNArgs(2),
	}, func(args []string) (q adminRequest, err error) {
		attribute, value, err := holderOf(args[0])
		if err != nil {
			return q, err
		}
		change := entitlementChange{Note: note}
		var end *time.Time
		if until != "" {
			at, err := time.Parse(time.RFC3339, until)
			if err != nil {
				return q, misused("invalid --until %q, for example 2027-01-01T00:00:00Z", until)
			}
			end = &at
		}
		for _, arg := range args[1:] {
			limit, text, _ := strings.Cut(arg, "=")
			number, err := strconv.ParseInt(text, 10, 64)
			if err != nil || limit == "" {
				return q, misused("invalid limit %q: must be limit=number, for example requests=5000", arg)
			}
			change.Set = append(change.Set, entitlementRow{attribute, value, limit, &number, end})
		}
		return adminRequest{http.MethodPost, "/v1/entitlements", change}, nil
	}, a.tellEntitlementsChanged)
	c.Flags().StringVar(&until, "until", "", "`time` at which the numbers expire; default never")
	c.Flags().StringVar(&note, "note", "", "`text` for the audit log")
	return c
}

// holderOf splits attribute=value.
func holderOf(arg string) (attribute, value string, err error) {
	attribute, value, ok := strings.Cut(arg, "=")
	if !ok || attribute == "" || value == "" {
		return "", "", misused("invalid %q: must be attribute=value, for example tenant=acme", arg)
	}
	return attribute, value, nil
}

func newEntitlementsDeleteCommand(a *app) *cobra.Command {
	var note string
	c := adminCommand(a, &cobra.Command{
		Use:   "delete attribute=value [limit...]",
		Short: "Delete some or all limits of a tenant or a plan",
		Example: `  penstock entitlements delete tenant=acme exports
  penstock entitlements delete tenant=acme`,
		Args: cobra.MinimumNArgs(1),
	}, func(args []string) (q adminRequest, err error) {
		attribute, value, err := holderOf(args[0])
		if err != nil {
			return q, err
		}
		change := entitlementChange{Note: note}
		for _, limit := range slices.Concat(args[1:], []string{""})[:max(1, len(args)-1)] {
			change.Delete = append(change.Delete, entitlementRow{Attribute: attribute, Value: value, Limit: limit})
		}
		return adminRequest{http.MethodPost, "/v1/entitlements", change}, nil
	}, a.tellEntitlementsChanged)
	c.Flags().StringVar(&note, "note", "", "`text` for the audit log")
	return c
}

func (a *app) tellEntitlementsChanged(done *admin.EntitlementsChanged) error {
	a.warn(done.Warnings...)
	fmt.Fprintf(a.stdout, "%d added, %d changed, %d deleted, %d unchanged\n", done.Added, done.Changed, done.Deleted, done.Unchanged)
	return nil
}
