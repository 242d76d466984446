package penstock

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// An Option of [New] is a limit, given as a [Rate] or a [Limit], or a setting of the limiter: [WithName],
// [WithSecret], [WithReserveTTL], [FailOpen].
type Option interface{ IsLimiterOption() }

type limiterOptions struct {
	limits     []Limit
	name       string
	secret     string
	reserveTTL time.Duration
	failOpen   bool
}

// IsLimiterOption makes a Rate an [Option].
func (Rate) IsLimiterOption() {}

type optionFunc func(*limiterOptions)

func (optionFunc) IsLimiterOption() {}

// add reads the options. Only the types below are options: a type of another package cannot be one.
func (o *limiterOptions) add(options []Option) error {
	var errs []error
	for _, option := range options {
		switch option := option.(type) {
		case nil:
		case Limit:
			o.limits = append(o.limits, option)
		case Rate:
			o.limits = append(o.limits, option.SlidingCounter())
		case optionFunc:
			option(o)
		default:
			errs = append(errs, fmt.Errorf("unknown option of type %T: must be a Limit, a Rate, or made by WithName, WithSecret, WithReserveTTL or FailOpen", option))
		}
	}
	return errors.Join(errs...)
}

// WithName names the limiter. The name is part of the name of every counter: limiters of the same name that
// share a store share counters, on one node or on many. Limiters of different names never do. Clients see the
// name too, as in RateLimit-Policy: "search";q=100;w=60.
//
// A name has 1 to 63 lower-case letters, digits, '.', '_' and '-', and begins with a letter or digit.
func WithName(name string) Option {
	return optionFunc(func(o *limiterOptions) { o.name = name })
}

// WithSecret sets the secret of the keyed hash that replaces keys in the store. Without the secret, a reader
// of the store cannot test whether a known key is in it. All nodes that share counters need the same secret.
func WithSecret(secret string) Option {
	return optionFunc(func(o *limiterOptions) { o.secret = secret })
}

// WithReserveTTL sets how long a reservation made by [Limiter.Reserve] can be settled, released or renewed.
// The default is five minutes. After that it stays charged.
func WithReserveTTL(ttl time.Duration) Option {
	return optionFunc(func(o *limiterOptions) { o.reserveTTL = ttl })
}

// FailOpen allows requests that the store cannot decide, unless their context was cancelled. Without it they are
// denied.
func FailOpen() Option {
	return optionFunc(func(o *limiterOptions) { o.failOpen = true })
}

// reserveTTL is how long a reservation can be settled by default.
const reserveTTL = 5 * time.Minute

func (o *limiterOptions) validate(store Store) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case store == nil:
		fail("no store given, for example memstore.New(memstore.Options{})")
	case isNilPointer(store):
		fail("the store is a nil %T; check the error of the function that returned it", store)
	case o.name == "" && !isInProcess(store):
		fail("no name given: other processes may share the store's counters, so name the limiter, for example penstock.WithName(%q)", "search")
	case o.name != "" && !isLimiterName(o.name):
		fail("name %.80q: must have 1 to 63 lower-case letters, digits, '.', '_' and '-', and begin with a letter or digit", o.name)
	}
	if o.reserveTTL < algorithm.MinWindow || o.reserveTTL > storage.MaxReserve {
		fail("reserve TTL %v: must be from %v to %v", o.reserveTTL, algorithm.MinWindow, storage.MaxReserve)
	}
	if n := len(o.limits); n == 0 || n > storage.MaxCharges {
		fail("%d limits given: must be from 1 to %d, for example penstock.PerMinute(100)", n, storage.MaxCharges)
	}
	return errors.Join(errs...)
}

// isNilPointer reports whether the store is a nil pointer, as it is if the error of memstore.New was ignored.
func isNilPointer(store Store) bool {
	v := reflect.ValueOf(store)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// isInProcess reports whether the store says that no other process shares its counters. A store without the
// method counts as shared.
func isInProcess(store Store) bool {
	s, ok := store.(interface{ InProcess() bool })
	return ok && s.InProcess()
}

func isLimiterName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	return name != "" && len(name) <= 63 && strings.Trim(name, letters+"._-") == "" && strings.Contains(letters, name[:1])
}
