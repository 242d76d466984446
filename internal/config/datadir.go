package config

import (
	"os"
	"path/filepath"
	"strings"
)

// formerFiles are files that older versions left in the working directory, then the default of data_dir.
var formerFiles = []string{"penstock.db", "key_secret", "rules.last-good"}

// settleDataDir chooses the data directory if none is set. A server that was started without one before stays in
// its working directory, because it would find no rules elsewhere.
func (l *loader) settleDataDir(env []string) {
	if l.origin["data_dir"] != "" {
		return
	}
	for _, name := range formerFiles {
		if _, err := os.Stat(name); err == nil {
			l.config.DataDir = "."
			l.warn("data_dir", "using the working directory, as %s is there; set data_dir: . to keep it, or move the files to %s", name, defaultDataDir(env))
			return
		}
	}
	l.config.DataDir = defaultDataDir(env)
}

// defaultDataDir returns systemd's StateDirectory=, or the user's data directory by the XDG specification, or,
// for a service without a home, /var/lib/penstock.
func defaultDataDir(env []string) string {
	if dir, _, _ := strings.Cut(Getenv(env, "STATE_DIRECTORY"), ":"); filepath.IsAbs(dir) {
		return dir
	}
	if dir := Getenv(env, "XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "penstock")
	}
	if home := Getenv(env, "HOME"); filepath.IsAbs(home) && home != "/" {
		return filepath.Join(home, ".local", "share", "penstock")
	}
	return "/var/lib/penstock"
}

// sqliteFile returns the path of a relative SQLite file: inside data_dir. If data_dir is not set, it is relative
// to the working directory.
func (l *loader) sqliteFile(name string) string {
	isNamed := l.origin["rules.database"] != "" || l.origin["rules.database_file"] != ""
	if filepath.IsAbs(name) || isNamed && l.origin["data_dir"] == "" {
		return name
	}
	return filepath.Join(l.config.DataDir, name)
}

func (c *Config) InDataDir(name string) string { return filepath.Join(c.DataDir, name) }
