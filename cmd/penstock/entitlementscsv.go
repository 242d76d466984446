package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
)

// entitlementColumns are the columns of a CSV file. until may be missing.
var entitlementColumns = []string{"attribute", "value", "limit", "number", "until"}

func newEntitlementsImportCommand(a *app) *cobra.Command {
	var note string
	var replace bool
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Set entitlements from a CSV file",
		Long: `Set entitlements from a CSV file. Its first line names the columns: attribute, value, limit,
number and, optionally, until. - is stdin.

The whole file is checked before anything changes. Rows are then sent in batches of 5000,
each of them atomic. Rows that already match the file are not changed, so you can repeat an
interrupted import.

With --replace, rows that are not in the file are deleted if their attribute is in the file.`,
		Example: `  penstock entitlements import billing.csv
  psql -c "copy (…) to stdout with csv header" | penstock entitlements import --replace -`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			rows, err := a.readEntitlements(args[0])
			if err != nil {
				return exitWithNo(fmt.Errorf("read %s: %w", args[0], err))
			}
			client, err := a.adminClient(c)
			if err != nil {
				return err
			}
			if note == "" {
				note = "import of " + filepath.Base(args[0])
			}
			i := entitlementImport{client: client, note: note, total: admin.EntitlementsChanged{Warnings: []string{}}}
			if err := i.run(c.Context(), rows, replace); err != nil {
				return err
			}
			if a.json() {
				return a.writeJSON(i.total)
			}
			return a.tellEntitlementsChanged(&i.total)
		},
	}
	addAdminFlags(c)
	c.Flags().StringVar(&note, "note", "", "`text` for the audit log; default the name of the file")
	c.Flags().BoolVar(&replace, "replace", false, "delete rows of the file's attributes that are not in the file")
	return c
}

// An entitlementImport sends rows in parts, and adds up what they change.
type entitlementImport struct {
	client *adminClient
	note   string
	total  admin.EntitlementsChanged
}

func (i *entitlementImport) run(ctx context.Context, rows []entitlementRow, replace bool) (err error) {
	var gone []entitlementRow
	if replace {
		if gone, err = i.client.notIn(ctx, rows); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(rows, entitlementPage) {
		if err := i.send(ctx, &entitlementChange{Set: part, Note: i.note}); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(gone, entitlementPage) {
		if err := i.send(ctx, &entitlementChange{Delete: part, Note: i.note}); err != nil {
			return err
		}
	}
	return nil
}

func (i *entitlementImport) send(ctx context.Context, change *entitlementChange) error {
	t := &i.total
	var done admin.EntitlementsChanged
	if err := i.client.fetch(ctx, http.MethodPost, "/v1/entitlements", change, &done); err != nil {
		return fmt.Errorf("after %d rows: %w", t.Added+t.Changed+t.Deleted+t.Unchanged, err)
	}
	t.Added, t.Changed, t.Deleted, t.Unchanged = t.Added+done.Added, t.Changed+done.Changed, t.Deleted+done.Deleted, t.Unchanged+done.Unchanged
	for _, warning := range done.Warnings {
		if len(t.Warnings) < maxImportWarnings && !slices.Contains(t.Warnings, warning) {
			t.Warnings = append(t.Warnings, warning)
		}
	}
	return nil
}

// maxImportWarnings is how many warnings of an import are shown.
const maxImportWarnings = 20

// notIn returns the rows on the server that are not in a file, of the attributes that the file has.
func (c *adminClient) notIn(ctx context.Context, rows []entitlementRow) (gone []entitlementRow, err error) {
	kept, attributes := make(map[[3]string]bool, len(rows)), map[string]bool{}
	for i := range rows {
		kept[rows[i].key()], attributes[rows[i].Attribute] = true, true
	}
	for attribute := range attributes {
		err := c.eachEntitlement(ctx, url.Values{"attribute": {attribute}}, func(e *admin.Entitlement) error {
			row := entitlementRow{Attribute: e.Attribute, Value: e.Value, Limit: e.Limit}
			if !kept[row.key()] {
				gone = append(gone, row)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return gone, nil
}

// readEntitlements reads a CSV file.
func (a *app) readEntitlements(path string) ([]entitlementRow, error) {
	if path == "-" {
		return parseEntitlements(a.stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return parseEntitlements(file)
}

// Bounds of a CSV file.
const (
	maxEntitlementFile = 1 << 30 // bytes
	maxCSVMistakes     = 10
)

func parseEntitlements(from io.Reader) (rows []entitlementRow, err error) {
	r := csv.NewReader(bufio.NewReader(io.LimitReader(from, maxEntitlementFile)))
	r.ReuseRecord = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: its first line must be " + strings.Join(entitlementColumns, ","))
	}
	if err != nil {
		return nil, err
	}
	columns, err := columnsOf(header)
	if err != nil {
		return nil, err
	}
	seen := map[[3]string]int{}
	var mistakes []error
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, errors.Join(mistakes...)
		}
		if err != nil {
			return nil, errors.Join(append(mistakes, err)...)
		}
		line, _ := r.FieldPos(0)
		row, err := columns.row(record)
		if first, twice := seen[row.key()]; err == nil && twice {
			err = fmt.Errorf("%s=%s %s is a duplicate of line %d", row.Attribute, row.Value, row.Limit, first)
		}
		seen[row.key()] = line
		if err != nil {
			if mistakes = append(mistakes, fmt.Errorf("line %d: %w", line, err)); len(mistakes) == maxCSVMistakes {
				return nil, errors.Join(mistakes...)
			}
		}
		rows = append(rows, row)
	}
}

// csvColumns are the positions of entitlementColumns in a file; -1: missing.
type csvColumns [5]int

func columnsOf(header []string) (c csvColumns, err error) {
	for i, name := range entitlementColumns {
		if c[i] = slices.Index(header, name); c[i] < 0 && name != "until" {
			return c, fmt.Errorf("the first line %q lacks the column %s: it must name %s", strings.Join(header, ","), name, strings.Join(entitlementColumns, ","))
		}
	}
	for _, name := range header {
		if !slices.Contains(entitlementColumns, name) {
			return c, fmt.Errorf("unknown column %q: must be one of %s", name, strings.Join(entitlementColumns, ","))
		}
	}
	return c, nil
}

func (c *csvColumns) row(record []string) (row entitlementRow, err error) {
	text := func(i int) string {
		if c[i] < 0 {
			return ""
		}
		return strings.Clone(record[c[i]])
	}
	row = entitlementRow{Attribute: text(0), Value: text(1), Limit: text(2)}
	if row.Attribute == "" || row.Value == "" || row.Limit == "" {
		return row, errors.New("attribute, value and limit must not be empty")
	}
	number, err := strconv.ParseInt(text(3), 10, 64)
	if err != nil || number < 0 {
		return row, fmt.Errorf("invalid number %.40q: must be a whole number, 0 or more", text(3))
	}
	row.Number = &number
	if end := text(4); end != "" {
		until, err := time.Parse(time.RFC3339, end)
		if err != nil {
			return row, fmt.Errorf("invalid until %.40q, for example 2027-01-01T00:00:00Z", end)
		}
		row.Until = &until
	}
	return row, nil
}

func newEntitlementsExportCommand(a *app) *cobra.Command {
	var attribute string
	c := &cobra.Command{
		Use:     "export",
		Short:   "Write entitlements as CSV",
		Long:    `Write all entitlements, or those of one attribute, to stdout as CSV, in the format that import reads.`,
		Example: `  penstock entitlements export --attribute tenant > tenants.csv`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.adminClient(c)
			if err != nil {
				return err
			}
			out := csv.NewWriter(a.stdout)
			_ = out.Write(entitlementColumns) // Flush reports errors
			err = client.eachEntitlement(c.Context(), url.Values{"attribute": {attribute}}, func(e *admin.Entitlement) error {
				until := ""
				if e.Until != nil {
					until = e.Until.UTC().Format(time.RFC3339Nano)
				}
				return out.Write([]string{e.Attribute, e.Value, e.Limit, strconv.FormatInt(e.Number, 10), until})
			})
			out.Flush()
			return errors.Join(err, out.Error())
		},
	}
	addAdminFlags(c)
	c.Flags().StringVar(&attribute, "attribute", "", "only rows of this `attribute`, for example tenant")
	return c
}
