package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules"
)

// callFlags describe a request: attributes as arguments, the rest as flags.
type callFlags struct {
	domain, id string
	cost       int64
}

func (f *callFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.domain, "domain", penstock.DefaultDomain, "`domain` whose rules apply")
	c.Flags().Int64Var(&f.cost, "cost", 1, "cost of the request; 0 charges nothing")
	c.Flags().StringVar(&f.id, "id", "", "idempotency key of the request, to recognise duplicates")
}

// call builds a request from name=value arguments.
func (f *callFlags) call(args []string) (*penstock.Call, error) {
	call := &penstock.Call{Domain: f.domain, Cost: f.cost, ID: f.id}
	var errs []error
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		switch _, twice := call.Attribute(name); {
		case !ok || name == "":
			errs = append(errs, fmt.Errorf("invalid attribute %q: must be name=value, for example path=/login", arg))
		case twice:
			errs = append(errs, fmt.Errorf("attribute %s is given twice", name))
		default:
			call.Attributes = append(call.Attributes, penstock.Attribute{Name: name, Value: value})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, misused("%w", err)
	}
	return call, nil
}

// originFlags name rules that a command reads itself.
type originFlags struct{ file, database, databaseFile, config string }

func (f *originFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "rules", "", "rules in a `file` or a directory; - is stdin")
	c.Flags().StringVar(&f.database, "database", "", "rules in a database: sqlite:FILE or postgres://…; with a password, use --database-file")
	c.Flags().StringVar(&f.databaseFile, "database-file", "", "`file` that contains the value of --database")
	c.Flags().StringVar(&f.config, "config", "", "use the rules in this configuration `file` of a server")
	c.MarkFlagsMutuallyExclusive("rules", "database", "database-file", "config")
	completeValues(c, "database", "sqlite:", "postgres://")
}

// areSet reports whether the flags name rules.
func (f *originFlags) areSet() bool {
	return f.file != "" || f.database != "" || f.databaseFile != "" || f.config != ""
}

// readConfig finds where a server with the configuration has its rules.
func (f *originFlags) readConfig(a *app) error {
	sources := config.Sources{File: f.config, Env: a.env}
	if c, err := config.Read(sources); err != nil || c.Rules.File != "" {
		f.file = c.Rules.File
		return err
	}
	c, err := config.LoadRules(sources)
	f.database = string(c.Rules.Database)
	return err
}

// compile reads and compiles the rules.
func (f *originFlags) compile(ctx context.Context, a *app) (*rules.Snapshot, error) {
	files, version, err := f.read(ctx, a)
	if err != nil {
		return nil, err
	}
	return compile(files, rules.Options{Version: version})
}

func (f *originFlags) read(ctx context.Context, a *app) ([]rules.File, int64, error) {
	if f.config != "" {
		if err := f.readConfig(a); err != nil {
			return nil, 0, exitWithNo(err)
		}
	}
	if f.database == "" && f.databaseFile == "" {
		files, err := a.readRules(ctx, f.file)
		return files, 0, err
	}
	source, err := f.source(a)
	if err != nil {
		return nil, 0, misused("%w", err)
	}
	origin, err := ruledb.NewOrigin(source, ruledb.Options{})
	if err != nil {
		return nil, 0, misused("%w", err)
	}
	defer origin.Close()
	text, err := origin.Read(ctx)
	if err != nil {
		return nil, 0, err
	}
	return text.Files, text.Version, nil
}

// source returns the database that the flags name.
func (f *originFlags) source(a *app) (string, error) {
	if f.databaseFile == "" {
		if f.config == "" && config.HasPassword(f.database) {
			a.warn("--database: " + config.VisiblePassword)
		}
		return f.database, nil
	}
	text, warning, err := config.ReadSecretFile(f.databaseFile)
	if warning != "" {
		a.warn("--database-file: " + warning)
	}
	return strings.TrimRight(text, "\r\n"), err
}
