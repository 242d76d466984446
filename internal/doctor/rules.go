package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleredis"
	"github.com/penstock-io/penstock/internal/server"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/internal/xdsconfig"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// examineRules checks the rules at their origin and where they are published. It returns them, or nil.
func (d *doctor) examineRules(ctx context.Context) *rules.Snapshot {
	origin, text, found := d.readRules(ctx)
	if origin != "" {
		d.examineCopy(origin, text)
	}
	if text != nil && !d.Config.Rules.IsEnvoy() {
		d.examinePublished(ctx, text)
	}
	d.examineRunning(ctx, text)
	return found
}

// readRules reads and compiles the rules as a server would. It returns the name of their origin, or "" if the
// configuration of the origin is invalid.
func (d *doctor) readRules(ctx context.Context) (origin string, text *live.Text, found *rules.Snapshot) {
	from, end, err := d.ruleOrigin()
	if err != nil {
		d.fail("origin", "docs/reference/configuration.md, rules", "%v", err)
		return "", nil, nil
	}
	defer end()
	text, found = d.readOrigin(ctx, from)
	return server.OriginName(from), text, found
}

func (d *doctor) readOrigin(ctx context.Context, origin live.Origin) (*live.Text, *rules.Snapshot) {
	if path, ok := strings.CutPrefix(string(d.Config.Rules.Database), "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			d.warn("origin", "create one with penstock rules apply rules.yaml, or serve --demo", "database %s does not exist yet: every request passes", path)
			return nil, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	text, err := origin.Read(ctx)
	switch {
	case errors.Is(err, live.ErrNoRules):
		d.warn("origin", "penstock rules apply rules.yaml", "%s has no rules yet: every request passes", origin)
		return nil, nil
	case errors.Is(err, ruledb.ErrOlderSchema):
		d.warn("origin", "none needed: serve migrates it; docs/how-to/upgrade.md", "%v", err)
		return nil, nil
	case errors.Is(err, ruledb.ErrNewerSchema):
		d.block("origin", "upgrade Penstock; docs/how-to/upgrade.md", "%v", err)
		return nil, nil
	case err != nil:
		d.block("origin", "check that it exists and that this user may read it; until then nodes serve the rules they have",
			"cannot read the rules: %v", err)
		return nil, nil
	}
	return text, d.compileRules(origin, text)
}

// ruleOrigin returns the origin of the rules and a function that closes it.
func (d *doctor) ruleOrigin() (_ live.Origin, end func(), err error) {
	c := &d.Config.Rules
	switch {
	case c.XDS.Server != "":
		options := c.XDS.Options()
		options.Wait = d.Timeout
		origin, err := xdsconfig.New(options)
		if err != nil {
			return nil, nil, err
		}
		return origin, origin.Close, nil
	case c.Envoy != "":
		origin, err := live.NewFiles(c.Envoy)
		return origin, func() {}, err
	case c.File != "":
		origin, err := live.NewFiles(c.File)
		return origin, func() {}, err
	case c.Redis:
		options, err := d.Config.Store.Redis.RuleOptions()
		if err != nil {
			return nil, nil, err
		}
		origin, err := ruleredis.New(options)
		if err != nil {
			return nil, nil, err
		}
		return origin, origin.Close, nil
	}
	origin, err := ruledb.NewOrigin(string(c.Database), ruledb.Options{Patience: d.Timeout, AsItIs: true})
	if err != nil {
		return nil, nil, err
	}
	return origin, func() { origin.Close() }, nil
}

// compileRules reports whether the rules can be served.
func (d *doctor) compileRules(origin live.Origin, text *live.Text) *rules.Snapshot {
	compile := rules.CompileFiles
	if other := d.Config.Rules.Compiler(); other != nil {
		compile = other
	}
	snapshot, warnings, err := compile(text.Files, rules.Options{Secret: "not of callers", Version: text.Version, MaxDelay: d.Config.Gateway.MaxDelay})
	if err != nil {
		d.fail("origin", "fix them: "+validateCommand(&d.Config.Rules)+" lists every error; a running server keeps the rules it has, a new one does not start",
			"%s has invalid rules: %v", origin, err)
		return nil
	}
	shown := spelling.Count(len(snapshot.Rules), "rule")
	if text.Version != 0 {
		d.ok("origin", "%s: version %d, %s", origin, text.Version, shown)
	} else {
		d.ok("origin", "%s: %s", origin, shown)
	}
	for _, name := range envoyratelimit.IgnoredFiles(d.Config.Rules.Envoy) {
		d.warn("rules", "rename it to *.yaml, *.yml or *.json in the directory itself, or remove it", "%.128q in %s is ignored", name, origin)
	}
	for _, w := range warnings {
		line, _, _ := strings.Cut(w.String(), "\n") // the rest is an excerpt of the source
		d.warn("rules", "", "%s", line)
	}
	return snapshot
}

// replaceCopy says how to get a copy of the configured origin.
const replaceCopy = "start a server with this configuration once while the origin is up: it replaces the copy; if a server runs here with another configuration, give each its own data_dir"

// examineCopy checks the copy that a start without the origin would use. text is nil if the origin has no rules
// or could not be read.
func (d *doctor) examineCopy(origin string, text *live.Text) {
	path := server.LastGoodFile(d.Config)
	if path == "" {
		return
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && d.Config.Rules.File != "" {
		d.ok("last good", "no copy of the rules yet; they are in a local file")
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		d.warn("last good", "start a server with this data_dir once, and keep data_dir across restarts",
			"no copy of the rules in %s: a server that starts while their origin is down has no rules", d.Config.DataDir)
		return
	}
	var kept *live.Text
	var from string
	var data []byte
	if err == nil {
		data, err = config.ReadFile(path, int64(live.MaxEncoded))
	}
	if err == nil {
		kept, from, err = live.DecodeLastGood(data)
	}
	switch {
	case err != nil:
		d.fail("last good", "delete it; a server writes a new one", "%s is damaged: %v", path, err)
	case from == "":
		d.warn("last good", replaceCopy, "%s does not say where its rules come from: a server does not start with it while the origin is down", path)
	case from != origin:
		d.warn("last good", replaceCopy, "%s has rules of %s, not of %s: a server does not start with it while the origin is down", path, from, origin)
	case text == nil:
		d.ok("last good", "%s: %s, %s old; a server starts with it while the origin is down", path, versionOf(kept), age(info.ModTime()))
	case text.Checksum() != kept.Checksum():
		d.warn("last good", "check that a server runs with this data_dir and can read the origin: see its log and /v1/status",
			"%s has %s, %s old, but the origin has %s", path, versionOf(kept), age(info.ModTime()), versionOf(text))
	default:
		d.ok("last good", "%s has what the origin has (%s)", path, versionOf(kept))
	}
}

// examinePublished compares the rules with those published in Redis for nodes without a database.
func (d *doctor) examinePublished(ctx context.Context, text *live.Text) {
	if d.Config.Rules.Database == "" || !d.Config.HasRedis() {
		return
	}
	options, err := d.Config.Store.Redis.RuleOptions()
	if err != nil {
		return // reported for the store
	}
	options.Timeout = d.Timeout
	there, err := ruleredis.New(options)
	if err != nil {
		return
	}
	defer there.Close()
	published, err := there.Read(ctx)
	switch {
	case errors.Is(err, live.ErrNoRules):
		d.warn("in redis", "start a server with this configuration, or: penstock rules apply --redis …", "no rules are published: a node with rules.redis has none")
	case errors.Is(err, penstock.ErrUnavailable) && strings.Contains(err.Error(), "NOPERM"):
		d.unknown("in redis", "if nodes read rules from Redis, grant the rights in docs/reference/redis.md", "the Redis user may not read the rules: %v", err)
	case errors.Is(err, penstock.ErrUnavailable): // reported for the store
	case err != nil:
		d.fail("in redis", "publish them again: penstock rules apply --redis …", "%v", err)
	case published.Checksum() != text.Checksum():
		d.warn("in redis", "a server with the database publishes them; see its log",
			"nodes with rules.redis have %s, the database has %s", versionOf(published), versionOf(text))
	default:
		d.ok("in redis", "Redis has what the database has (%s)", versionOf(published))
	}
}

func versionOf(t *live.Text) string {
	if t.Version == 0 {
		return "rules " + t.Checksum()[:12]
	}
	return fmt.Sprintf("version %d", t.Version)
}

// age formats how long ago something was, for people.
func age(then time.Time) string { return span(time.Since(then)) }

func span(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Hour:
		return spelling.Duration(d.Round(time.Second))
	}
	return spelling.Duration(d.Round(time.Minute))
}

// validateCommand returns the command that prints every error in the rules.
func validateCommand(r *config.Rules) string {
	if r.XDS.Server != "" {
		return "penstock serve --check --connect"
	}
	if r.Envoy != "" {
		return "penstock rules import envoy-ratelimit " + r.Envoy
	}
	return "penstock rules validate"
}
