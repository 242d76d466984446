package stack

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/penstock-io/penstock"
)

// minSecret is the minimum length of a secret in bytes, as for key_secret of penstock serve.
const minSecret = 16

// validate returns all errors of the configuration. It reads no rules and does not connect.
func (c *Config) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case c.Rules == "" && c.Origin == nil:
		fail("no rules given; set Rules or Origin")
	case c.Rules != "" && c.Origin != nil:
		fail("both Rules and Origin are set; use one")
	case isNilPointer(c.Origin):
		fail("the Origin is a nil %T; check the error of the function that returned it", c.Origin)
	}
	if isNilPointer(c.Entitlements) {
		fail("the Entitlements are a nil %T; check the error of the function that returned it", c.Entitlements)
	}
	if c.Nodes < 0 {
		fail("%d nodes; must be 0 or more", c.Nodes)
	}
	errs = append(errs, c.validateRedis()...)
	if len(errs) > 0 {
		return fmt.Errorf("%w configuration: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	return nil
}

// validateRedis checks the options of Redis, and the secret that nodes share through it.
func (c *Config) validateRedis() (errs []error) {
	if len(c.Redis.Addresses) == 0 {
		if set := c.redisFields(); len(set) > 0 {
			errs = append(errs, fmt.Errorf("redis options without Addresses: %s; set Addresses, for example to 127.0.0.1:6379, or leave Redis empty to keep counters in memory", strings.Join(set, ", ")))
		}
		return errs
	}
	if err := c.Redis.Validate(); err != nil {
		errs = append(errs, err)
	}
	switch n := len(c.Secret); {
	case n == 0:
		errs = append(errs, errors.New("no Secret given: nodes that share limits through Redis need the same secret; create one with openssl rand -hex 32 and give it to all nodes"))
	case n < minSecret:
		errs = append(errs, fmt.Errorf("a Secret of %d bytes; must be at least %d: create one with openssl rand -hex 32", n, minSecret))
	}
	return errs
}

// redisFields returns the names of the options of Redis that are set, besides the addresses.
func (c *Config) redisFields() (names []string) {
	v := reflect.ValueOf(c.Redis)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Addresses" && !v.Field(i).IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// isNilPointer reports whether an interface holds a nil pointer, as it does if the error of a constructor was ignored.
func isNilPointer(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
