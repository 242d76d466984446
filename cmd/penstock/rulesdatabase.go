package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleredis"
	"github.com/penstock-io/penstock/internal/ruleservice"
)

// databaseFlags say where the rules are kept, with the same names as in serve. Flags override the environment,
// which overrides the configuration. There is no default, because that would create a database in the current
// directory that no server reads.
type databaseFlags struct{ config, database, file, redis string }

func (f *databaseFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.config, "config", "", "the server's configuration (`file`), which names the database; default PENSTOCK_CONFIG")
	c.Flags().StringVar(&f.database, "database", "", "the rules database, sqlite:PATH or postgres://…; with a password, use --database-file (`source`, PENSTOCK_RULES_DATABASE)")
	c.Flags().StringVar(&f.file, "database-file", "", "`file` that contains the value of --database (PENSTOCK_RULES_DATABASE_FILE)")
	c.MarkFlagsMutuallyExclusive("database", "database-file")
}

// addRedis adds the flag for where changes are published.
func (f *databaseFlags) addRedis(c *cobra.Command) {
	c.Flags().StringVar(&f.redis, "redis", "", "publish to nodes that read rules from this Redis (`host:port`, PENSTOCK_STORE_REDIS_ADDRESSES)")
}

// A rulebase is the rules database and the service that changes it.
type rulebase struct {
	*ruledb.DB
	service *ruleservice.Service
	redis   *ruleredis.Rules // nil: nodes read the database

	mustPublish bool // --redis is set
}

// publishError returns nil if rules need not be published: the user of the server's Redis lacks the rights, which
// only nodes without a database need.
func (b *rulebase) publishError(err error) error {
	if !b.mustPublish && errors.Is(err, ruleredis.ErrForbidden) {
		return nil
	}
	return err
}

func (b *rulebase) close() {
	_ = b.service.Database.Close() // all changes are already saved
	if b.redis != nil {
		b.redis.Close()
	}
}

// openRules opens the rules database. Only a command that writes the first version may create it.
func (a *app) openRules(ctx context.Context, f *databaseFlags, create bool) (*rulebase, error) {
	config, err := a.rulesConfig(f)
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	source := string(config.Rules.Database)
	if path, ok := strings.CutPrefix(source, "sqlite:"); ok && !create {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no database %s: create one with penstock rules apply (%w)", path, fs.ErrNotExist)
		}
	}
	origin, err := ruledb.NewOrigin(source, ruledb.Options{})
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	b := &rulebase{service: &ruleservice.Service{Database: origin}, mustPublish: f.redis != ""}
	if f.redis != "" || config.HasRedis() {
		options, err := config.Store.Redis.RuleOptions()
		if err != nil {
			return nil, &exit{exitUsage, err}
		}
		if b.redis, err = ruleredis.New(options); err != nil {
			return nil, &exit{exitUsage, err}
		}
		b.service.Publisher = b.redis
	}
	if b.DB, err = origin.DB(ctx); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// rulesConfig returns the part of the configuration that says where rules are.
func (a *app) rulesConfig(f *databaseFlags) (*config.Config, error) {
	flags := slices.DeleteFunc([]config.Flag{
		{Name: "--database", Key: "rules.database", Value: f.database},
		{Name: "--database-file", Key: "rules.database_file", Value: f.file},
		{Name: "--redis", Key: "store.redis.addresses", Value: f.redis},
	}, func(flag config.Flag) bool { return flag.Value == "" })
	conf, err := config.LoadRules(config.Sources{File: f.config, Env: a.env, Flags: flags})
	a.warn(conf.Warnings...)
	return conf, err
}

// currentUser returns the author of changes that name none.
func (a *app) currentUser() string {
	if name := cmp.Or(a.getenv("USER"), a.getenv("LOGNAME"), a.getenv("USERNAME")); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// versionJSON is a version in JSON output.
type versionJSON struct {
	Version  int64     `json:"version"`
	At       time.Time `json:"at"`
	Author   string    `json:"author"`
	Message  string    `json:"message,omitempty"`
	Restores int64     `json:"restores,omitempty"`
	Bytes    int       `json:"bytes"`
}

func shownVersion(v ruledb.Version) versionJSON {
	return versionJSON{v.Number, v.At, v.Author, v.Message, v.Restores, v.Size}
}
