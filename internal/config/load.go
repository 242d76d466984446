package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/penstock-io/penstock/internal/urlform"
)

// Bounds of what is read.
const (
	maxFile       = 256 << 10
	maxSecretFile = 16 << 10
)

// A loader assembles a configuration: defaults, then the file, the environment, the flags. It records where each
// value comes from, and collects all errors.
type loader struct {
	config   *Config
	settings map[string]*setting
	origin   map[string]string // of a key: penstock.yaml:3:5, PENSTOCK_…, --flag; none: the default

	errs       []error
	broken     []string // keys whose value could not be read
	unreadable bool     // a whole source could not be read
}

// A Flag is a key's value set by a flag.
type Flag struct{ Name, Key, Value string }

// Sources are where a configuration comes from, besides the defaults. A flag overrides the environment, which
// overrides the file.
type Sources struct {
	File  string   // "": the file that PENSTOCK_CONFIG names, if any
	Env   []string // in the form of os.Environ
	Flags []Flag
	Demo  bool

	EnvoyEnv bool // also read the variables of envoyproxy/ratelimit; the same as PENSTOCK_ENVOY_RATELIMIT_ENV=true
}

func (s *Sources) fileName() string { return cmp.Or(s.File, Getenv(s.Env, "PENSTOCK_CONFIG")) }

// Load reads and checks a configuration as serve does. The error is an *Error with every error found. The values
// that could be read are returned even then.
func Load(s Sources) (*Config, error) {
	l := readSources(s)
	l.errs = append(l.errs, UnknownVariables(s.Env)...)
	c := l.config
	unconfigured := s.fileName() == "" && len(c.Upstreams) == 0 && c.Rules.File == "" && c.Rules.Database == "" && !c.Rules.Redis && !c.Rules.IsEnvoy()
	c.Demo = s.Demo || unconfigured
	if c.Demo && l.origin["listen.gateway"] == "" {
		c.Listen.Gateway = "127.0.0.1:8080" // a demo is only for this machine
	}
	l.check()
	return c, l.err()
}

// Read reads a configuration and checks each value, but not whether they fit together.
func Read(s Sources) (*Config, error) {
	l := readSources(s)
	return l.config, l.err()
}

// LoadRules reads a configuration and checks its rules database.
func LoadRules(s Sources) (*Config, error) {
	l := readSources(s)
	if l.unreadable {
		return l.config, l.err()
	}
	r := l.config.Rules
	isNamed := s.fileName() != "" || l.origin["rules.database"] != "" || l.origin["rules.database_file"] != "" || l.origin["data_dir"] != ""
	if !isNamed && r.File == "" && !r.Redis {
		return l.config, errors.New("no rules database: name it with --database (sqlite:penstock.db, postgres://…), PENSTOCK_RULES_DATABASE, or the server's configuration with --config")
	}
	if r.File != "" || r.Redis {
		l.reportUnusable("rules", "these rules are not in a database: name one with --database")
	}
	l.checkRedis("store.redis", &l.config.Store.Redis)
	l.checkRules()
	return l.config, l.err()
}

// An Error lists every error in a configuration.
type Error struct {
	Mistakes   []error
	Unreadable bool // some sources or values could not be read, so the configuration is incomplete
}

func (e *Error) Error() string { return errors.Join(e.Mistakes...).Error() }

func (e *Error) Unwrap() []error { return e.Mistakes }

// err returns the errors found, or nil if there are none.
func (l *loader) err() error {
	if len(l.errs) == 0 {
		return nil
	}
	return &Error{l.errs, l.unreadable || len(l.broken) > 0}
}

func readSources(s Sources) *loader {
	l := newLoader()
	l.layer(func() { l.readFile(s.fileName()) })
	envoyEnv := s.EnvoyEnv || Getenv(s.Env, envoyEnvVariable) == "true"
	if envoyEnv {
		l.layer(func() { l.readEnvoyEnv(s) })
	}
	l.layer(func() { l.readEnv(s.Env) })
	l.layer(func() {
		for _, g := range s.Flags {
			l.set(g.Key, g.Value, g.Name)
			if g.Key == "rules.database" && HasPassword(g.Value) {
				l.warn(g.Key, VisiblePassword)
			}
		}
	})
	l.config.AdminOptional = envoyEnv && l.origin["listen.admin"] == ""
	l.readSecrets()
	l.settleDataDir(s.Env)
	return l
}

const VisiblePassword = "every user of this machine can read the password in the process list; put the URL into a file and name it with --database-file"

// HasPassword reports whether the source of a database contains a password.
func HasPassword(source string) bool {
	return urlform.HasPassword(source) || strings.Contains(source, "password=")
}

func newLoader() *loader {
	l := &loader{config: Default(), settings: map[string]*setting{}, origin: map[string]string{}}
	l.listSettings(l.root(), "")
	return l
}

func (l *loader) root() reflect.Value { return reflect.ValueOf(l.config).Elem() }

// listSettings lists the settings of a section.
func (l *loader) listSettings(section reflect.Value, prefix string) {
	for _, s := range settings(section, prefix) {
		l.settings[s.path] = &s
	}
}

// layer reads one source. The origin of rules is one choice spread over several keys: a source that sets one of
// them replaces the choice of earlier sources.
func (l *loader) layer(read func()) {
	r := &l.config.Rules
	before := *r
	r.File, r.Database, r.DatabaseFile, r.Envoy, r.XDS.Server, r.Redis = "", "", "", "", "", false
	read()
	if r.File == "" && r.Database == "" && r.DatabaseFile == "" && !r.IsEnvoy() && !r.Redis {
		r.File, r.Database, r.DatabaseFile, r.Envoy, r.XDS.Server, r.Redis = before.File, before.Database, before.DatabaseFile, before.Envoy, before.XDS.Server, before.Redis
	}
}

func (l *loader) readFile(name string) {
	if name == "" {
		return
	}
	text, err := ReadFile(name, maxFile)
	if err != nil {
		l.fail(fmt.Errorf("read the configuration: %w", err))
		return
	}
	l.readYAML(name, text, l.root(), "")
	for _, s := range settings(l.root(), "") {
		if s.value.Type() == reflect.TypeFor[Secret]() && s.value.Len() > 0 && strings.HasPrefix(l.origin[s.path], name+":") {
			l.checkMode(s.path, name)
			return
		}
	}
}

// readEnv reads the environment. See UnknownVariables for names it does not know.
func (l *loader) readEnv(env []string) {
	values := map[string]string{}
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	for _, s := range settings(l.root(), "") {
		if value, ok := values[variable(s.path)]; ok {
			l.set(s.path, value, variable(s.path))
		}
	}
}

// readSecrets reads the files that hold secrets.
func (l *loader) readSecrets() {
	for _, path := range []string{"key_secret", "admin.token", "admin.viewer_token", "admin.database", "jwt.secret", "rules.database", "store.redis.password", "store.redis.sentinel_password", "store.redis_per_second.password", "store.redis_per_second.sentinel_password"} {
		named := l.settings[path+"_file"]
		file := named.value.String()
		if file == "" {
			continue
		}
		if l.settings[path].value.String() != "" {
			l.reportInvalid(l.origin[named.path], named.path, "%s and %s are both set; use one (%s is set by %s)", path, named.path, path, cmp.Or(l.origin[path], "default"))
			continue
		}
		text, warning, err := ReadSecretFile(file)
		if warning != "" {
			l.warn(named.path, "%s", warning)
		}
		value := strings.TrimRight(text, "\r\n")
		switch {
		case err != nil:
			l.reportInvalid(l.origin[named.path], named.path, "%w", err)
		case value == "":
			l.reportInvalid(l.origin[named.path], named.path, "%s is empty", file)
		}
		l.settings[path].value.SetString(value)
	}
}

func (l *loader) set(path, text, origin string) {
	l.origin[path] = origin
	s := l.settings[path]
	if isListOfSections(s.value) {
		l.readYAML(origin, []byte(text), s.value, path)
		return
	}
	if err := s.set(text); err != nil {
		l.reportInvalid(origin, path, "%w", err)
	}
}

// fail records that a source cannot be read at all.
func (l *loader) fail(err error) {
	l.unreadable = true
	l.errs = append(l.errs, err)
}

// reportInvalid records that the text at a place is not a valid value of a key.
func (l *loader) reportInvalid(place, path, format string, args ...any) {
	if path != "" {
		l.broken = append(l.broken, path)
	}
	l.note(place, path, format, args...)
}

// reportUnusable records that the value of a key cannot be used. It ignores a key that was misread, whose value is not
// the intended one.
func (l *loader) reportUnusable(path, format string, args ...any) {
	for _, broken := range l.broken {
		broken = strings.TrimSuffix(broken, "_file")
		if strings.HasPrefix(broken, path) || strings.HasPrefix(path, broken) {
			return
		}
	}
	origin := l.origin[path]
	if list, _, ok := strings.Cut(path, "["); ok {
		origin = l.origin[list]
	}
	l.note(origin, path, format, args...)
}

// unusable is wrong for a value on which later checks would also fail, and might print it.
func (l *loader) unusable(path, format string, args ...any) {
	l.reportUnusable(path, format, args...)
	l.broken = append(l.broken, path)
}

// warn records that the value of a key works but should be changed.
func (l *loader) warn(path, format string, args ...any) {
	l.config.Warnings = append(l.config.Warnings, at(l.origin[path], path)+fmt.Sprintf(format, args...))
}

func (l *loader) note(origin, path, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s%w", at(origin, path), fmt.Errorf(format, args...)))
}

// at is what a message begins with: where a key was set, if anywhere, and its path, if it is about one.
func at(origin, path string) string {
	text := ""
	for _, part := range []string{origin, path} {
		if part != "" {
			text += part + ": "
		}
	}
	return text
}

// ReadFile reads a file of at most most bytes.
func ReadFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most)
}

func readAll(f *os.File, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), most)
	}
	return text, err
}
