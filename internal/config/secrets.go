package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// NewToken returns a random token.
func NewToken() string { return "pk_" + rand.Text() + rand.Text() }

// OpenKeySecret returns the secret that keys the hash of clients: the configured one, or one that is generated at
// the first start and kept.
func (c *Config) OpenKeySecret() (string, error) {
	text, err := c.ReadKeySecret()
	if errors.Is(err, os.ErrNotExist) {
		return KeepSecret(c.InDataDir("key_secret"), NewToken())
	}
	return text, err
}

// ReadKeySecret is OpenKeySecret, but never generates a secret.
func (c *Config) ReadKeySecret() (string, error) {
	if c.KeySecret != "" {
		return string(c.KeySecret), nil
	}
	return readKept(c.InDataDir("key_secret"))
}

// ReadAdminToken reads the kept token.
func (c *Config) ReadAdminToken() (string, error) { return readKept(c.AdminTokenFile()) }

func (c *Config) AdminTokenFile() string { return c.InDataDir("admin_token") }

// readKept reads a secret that was generated at the first start.
func readKept(file string) (string, error) {
	text, _, err := ReadSecretFile(file)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the secret in data_dir: %w", err)
	case len(text) < minSecret:
		return "", fmt.Errorf("%s has %d bytes, must have at least %d; delete it and the server creates a new one", file, len(text), minSecret)
	}
	return text, nil
}

// ReadSecretFile reads a file that contains a secret. It rejects a world-writable file, because anyone on the
// machine could choose the secret. The warning says who else can read or change it; group access may be intended,
// as on Kubernetes volumes with an fsGroup.
func ReadSecretFile(name string) (text, warning string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	if warning, err = checkMode(f); err != nil {
		return "", "", err
	}
	data, err := readAll(f, maxSecretFile)
	return string(data), warning, err
}

// checkMode checks who can read and write a secret's file.
func checkMode(f *os.File) (warning string, err error) {
	info, err := f.Stat()
	if err != nil || runtime.GOOS == "windows" { // Windows has no such modes
		return "", err
	}
	mode := info.Mode().Perm()
	switch {
	case mode&0o002 != 0:
		return "", fmt.Errorf("%s is writable by everybody (mode %#o): run chmod 600 %[1]s, and replace the secret if it may have been changed", f.Name(), mode)
	case mode&0o004 != 0:
		warning = "readable by everybody"
	case mode&0o020 != 0:
		warning = "writable by its group"
	default:
		return "", nil
	}
	return fmt.Sprintf("%s is %s (mode %#o): run chmod 600 %[1]s", f.Name(), warning, mode), nil
}

// checkMode checks who can read and write the file that contains a setting, or that a setting names and other
// packages read. Those packages report a missing file.
func (l *loader) checkMode(path, name string) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	warning, err := checkMode(f)
	if err != nil {
		l.reportUnusable(path, "%w", err)
	}
	if warning != "" {
		l.warn(path, "%s", warning)
	}
}

// KeepSecret writes a secret that only its owner can read, unless another process has just done so.
func KeepSecret(file, made string) (string, error) {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".secret-*") // with mode 0600
	if err != nil {
		return "", fmt.Errorf("save a secret in data_dir: %w", err)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(made)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Link(temporary.Name(), file)
	}
	if errors.Is(err, os.ErrExist) {
		text, _, err := ReadSecretFile(file)
		return text, err
	}
	if err != nil {
		return "", fmt.Errorf("save a secret in data_dir: %w", err)
	}
	return made, nil
}
