package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// newToken returns what nobody can guess.
func newToken() string { return "pk_" + rand.Text() + rand.Text() }

// keySecret returns what keys the hash of callers: the one configured, or one that is made at the
// first start and kept.
func (c *config) keySecret() (string, error) {
	if c.KeySecret != "" {
		return string(c.KeySecret), nil
	}
	file := c.inDataDir("key_secret")
	text, err := readBounded(file, maxSecretFile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return keepSecret(file, newToken())
	case err != nil:
		return "", fmt.Errorf("read the secret of keys: %w", err)
	case len(text) < minSecret:
		return "", fmt.Errorf("read the secret of keys: %s has %d bytes, at least %d; without the file, one is made", file, len(text), minSecret)
	}
	return string(text), nil
}

// keepSecret writes a secret for nobody but its owner, unless another process has just done so.
func keepSecret(file, made string) (string, error) {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".key_secret-*") // with mode 0600
	if err != nil {
		return "", fmt.Errorf("keep the secret of keys: %w", err)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(made)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Link(temporary.Name(), file)
	}
	if errors.Is(err, os.ErrExist) {
		text, err := readBounded(file, maxSecretFile)
		return string(text), err
	}
	if err != nil {
		return "", fmt.Errorf("keep the secret of keys: %w", err)
	}
	return made, nil
}
