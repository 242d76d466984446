package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/penstock-io/penstock/internal/urlform"
)

// Bounds of what is read.
const (
	maxConfigFile = 256 << 10
	maxSecretFile = 16 << 10
)

// A loader puts a configuration together: defaults, then the file, the environment, the flags. It
// remembers where each value comes from, and collects all mistakes.
type loader struct {
	config   *config
	settings map[string]*setting
	origin   map[string]string // of a key: penstock.yaml:3:5, PENSTOCK_…, --flag; none: the default

	errs       []error
	broken     []string // keys whose value could not be read
	unreadable bool     // a whole source could not be
}

// A given is the value of a key that a flag has.
type given struct{ flag, path, value string }

// loadConfig reads all sources. What is wrong is for check to tell.
func loadConfig(file string, env []string, flags []given) *loader {
	l := newLoader()
	l.layer(func() { l.readFile(file) })
	l.layer(func() { l.readEnv(env) })
	l.layer(func() {
		for _, g := range flags {
			l.set(g.path, g.value, g.flag)
			if g.path == "rules.database" && hasPassword(g.value) {
				l.warn(g.path, visiblePassword)
			}
		}
	})
	l.readSecrets()
	l.settleDataDir(env)
	return l
}

const visiblePassword = "every user of this machine can read the password in the process list; put the URL into a file and name it with --database-file"

// hasPassword tells whether the source of a database holds a password.
func hasPassword(source string) bool {
	return urlform.HasPassword(source) || strings.Contains(source, "password=")
}

func newLoader() *loader {
	l := &loader{config: defaultConfig(), settings: map[string]*setting{}, origin: map[string]string{}}
	l.know(l.root(), "")
	return l
}

func (l *loader) root() reflect.Value { return reflect.ValueOf(l.config).Elem() }

// know lists the settings of a section.
func (l *loader) know(section reflect.Value, prefix string) {
	for _, s := range settings(section, prefix) {
		l.settings[s.path] = &s
	}
}

func (l *loader) oneof(path string) []string {
	if s := l.settings[path]; s != nil {
		return s.oneof
	}
	return nil
}

// layer reads one source. Where rules come from is one choice in several keys: a source that makes
// it takes it from those before.
func (l *loader) layer(read func()) {
	r := &l.config.Rules
	before := *r
	r.File, r.Database, r.DatabaseFile, r.Envoy, r.Redis = "", "", "", "", false
	read()
	if r.File == "" && r.Database == "" && r.DatabaseFile == "" && r.Envoy == "" && !r.Redis {
		r.File, r.Database, r.DatabaseFile, r.Envoy, r.Redis = before.File, before.Database, before.DatabaseFile, before.Envoy, before.Redis
	}
}

func (l *loader) readFile(name string) {
	if name == "" {
		return
	}
	text, err := readBounded(name, maxConfigFile)
	if err != nil {
		l.fail(fmt.Errorf("read the configuration: %w", err))
		return
	}
	l.readYAML(name, text, l.root(), "")
	for _, s := range settings(l.root(), "") {
		if s.value.Type() == reflect.TypeFor[secret]() && s.value.Len() > 0 && strings.HasPrefix(l.origin[s.path], name+":") {
			l.checkMode(s.path, name)
			return
		}
	}
}

// readEnv takes what the environment says. See unknownVariables for names it does not know.
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
	for _, path := range []string{"key_secret", "admin.token", "admin.viewer_token", "jwt.secret", "rules.database", "store.redis.password", "store.redis.sentinel_password"} {
		named := l.settings[path+"_file"]
		file := named.value.String()
		if file == "" {
			continue
		}
		if l.settings[path].value.String() != "" {
			l.misread(l.origin[named.path], named.path, "%s and %s are both set; use one (%s is set by %s)", path, named.path, path, cmp.Or(l.origin[path], "default"))
			continue
		}
		text, warning, err := readSecretFile(file)
		if warning != "" {
			l.warn(named.path, "%s", warning)
		}
		value := strings.TrimRight(text, "\r\n")
		switch {
		case err != nil:
			l.misread(l.origin[named.path], named.path, "%w", err)
		case value == "":
			l.misread(l.origin[named.path], named.path, "%s is empty", file)
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
		l.misread(origin, path, "%w", err)
	}
}

// fail notes that a source cannot be read at all.
func (l *loader) fail(err error) {
	l.unreadable = true
	l.errs = append(l.errs, err)
}

// misread notes that what stands at a place cannot be the value of a key.
func (l *loader) misread(place, path, format string, args ...any) {
	if path != "" {
		l.broken = append(l.broken, path)
	}
	l.note(place, path, format, args...)
}

// wrong notes that the value of a key cannot be used. Nothing is said of one that was misread: it
// is not what it was meant to be.
func (l *loader) wrong(path, format string, args ...any) {
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
	l.note(cmp.Or(origin, "default"), path, format, args...)
}

// unusable is wrong where others would fail on the value too, and may print it.
func (l *loader) unusable(path, format string, args ...any) {
	l.wrong(path, format, args...)
	l.broken = append(l.broken, path)
}

// warn notes that the value of a key works, but should be changed.
func (l *loader) warn(path, format string, args ...any) {
	l.config.warnings = append(l.config.warnings, fmt.Sprintf("%s: %s: %s", cmp.Or(l.origin[path], "default"), path, fmt.Sprintf(format, args...)))
}

func (l *loader) note(origin, path, format string, args ...any) {
	if path != "" {
		origin += ": " + path
	}
	l.errs = append(l.errs, fmt.Errorf("%s: %w", origin, fmt.Errorf(format, args...)))
}

// readBounded reads a file that must not be larger than most.
func readBounded(name string, most int64) ([]byte, error) {
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
