package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/storage"
)

// validate reports all errors of a request.
func validate(c *penstock.Call) error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format, args...))
	}
	if len(c.Domain) > bounds.Domain {
		fail("domain of %d bytes; at most %d", len(c.Domain), bounds.Domain)
	}
	if c.Cost < 0 || c.Cost > algorithm.MaxCount {
		fail("cost %d is not from 0 to %d", c.Cost, int64(algorithm.MaxCount))
	}
	if c.MaxDelay < 0 {
		fail("max delay %v is negative", c.MaxDelay)
	}
	if err := validateTTL(c.TTL); err != nil {
		errs = append(errs, err)
	}
	if len(c.ID) > bounds.CallID {
		fail("id of %d bytes; at most %d", len(c.ID), bounds.CallID)
	}
	if len(c.Attributes) > bounds.Attributes {
		fail("%d attributes; at most %d", len(c.Attributes), bounds.Attributes)
	}
	for i := range min(len(c.Attributes), bounds.Attributes) {
		a := &c.Attributes[i]
		if len(a.Name) == 0 || len(a.Name) > bounds.AttributeName {
			fail("attribute %d: a name of %d bytes, must be from 1 to %d", i, len(a.Name), bounds.AttributeName)
		}
		if len(a.Value) > bounds.AttributeValue {
			fail("attribute %.32q: a value of %d bytes; at most %d", a.Name, len(a.Value), bounds.AttributeValue)
		}
		for k := range i {
			if c.Attributes[k].Name == a.Name {
				fail("attribute %.32q is there twice", a.Name)
				break
			}
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w call: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	return nil
}

func validateConclusion(c *penstock.Conclusion) error {
	var errs []error
	if c.Verb > penstock.Renew {
		errs = append(errs, fmt.Errorf("%v must be %v, %v or %v", c.Verb, penstock.Settle, penstock.Release, penstock.Renew))
	}
	if c.Cost < 0 || c.Cost > algorithm.MaxCount {
		errs = append(errs, fmt.Errorf("cost %d is not from 0 to %d", c.Cost, int64(algorithm.MaxCount)))
	}
	if err := validateTTL(c.TTL); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w conclusion: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	return nil
}

// validateTTL checks how long something is to be reserved; 0 leaves that to the rules.
func validateTTL(ttl time.Duration) error {
	if ttl != 0 && (ttl < algorithm.MinWindow || ttl > storage.MaxReserve) {
		return fmt.Errorf("ttl %v is not from %v to %v", ttl, algorithm.MinWindow, storage.MaxReserve)
	}
	return nil
}
