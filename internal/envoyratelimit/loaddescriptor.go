package envoyratelimit

import (
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/rls"
)

// descriptor reads a descriptor and all below it. It returns nil if there is no key.
func (f *file) descriptor(n *node, parent string) *descriptor {
	d := &descriptor{below: newLevel()}
	var rate, share, below *node
	var shadow, quota, detailed bool
	var metadata map[string]any
	f.fields(n, map[string]func(*node){
		"key":             func(n *node) { d.key = f.text(n) },
		"value":           func(n *node) { d.value = f.text(n) },
		"rate_limit":      func(n *node) { rate = n },
		"descriptors":     func(n *node) { below = n },
		"shadow_mode":     func(n *node) { shadow = f.bool(n) },
		"quota_mode":      func(n *node) { quota = f.bool(n) },
		"share_threshold": func(n *node) { d.shared, share = f.bool(n), n },
		"detailed_metric": func(n *node) { detailed = f.bool(n) },
		"value_to_metric": func(n *node) { d.isNamedByValue = f.bool(n) },
		"metadata":        func(n *node) { metadata = f.metadata(n) },
	})
	if d.key == "" {
		f.fail(n.At, "descriptor has empty key")
		return nil
	}
	if len(d.key) > rls.MaxKey {
		f.warn(n.At, "the key has %d bytes and can never be reached: descriptors with a key of more than %d are not counted", len(d.key), rls.MaxKey)
	}
	d.wild = strings.Contains(d.value, "*")
	if d.shared && !d.wild {
		f.fail(share.At, "share_threshold can only be used with wildcard values, which have a *; the value is %.64q", d.value)
	}
	path := parent + d.composite()
	if len(path) > maxPath {
		f.fail(n.At, "the keys and values that lead here have %d bytes, at most %d", len(path), maxPath)
		return nil
	}
	if rate != nil && rate.Kind != nothing {
		d.limit = &limit{path: path, shadow: shadow, quota: quota, metadata: metadata, isDetailed: detailed}
		f.limit(d.limit, rate)
	}
	if below != nil {
		f.level(d.below, below, path+".")
	}
	return d
}

// limit reads a rate_limit.
func (f *file) limit(l *limit, n *node) {
	if n.Kind != mapping {
		f.fail(n.At, "error loading config file: rate_limit must be a mapping, not %v", n.Kind)
		return
	}
	var unit string
	unitAt := n.At
	var replaces *node
	multiplier := int64(1)
	f.fields(n, map[string]func(*node){
		"unit":              func(n *node) { unit, unitAt = f.text(n), n.At },
		"requests_per_unit": func(n *node) { l.count = f.uint32(n) },
		"unlimited":         func(n *node) { l.unlimited = f.bool(n) },
		"name":              func(n *node) { l.name = f.text(n) },
		"replaces":          func(n *node) { replaces = n },

		// Extensions of Penstock.
		"unit_multiplier": func(n *node) { multiplier = f.uint32(n) },
		"algorithm":       func(n *node) { l.algorithm = f.algorithm(n) },
		"burst":           func(n *node) { l.burst = f.uint32(n) },
	})
	if replaces != nil {
		f.replaces(l, replaces)
	}
	window, known := windows[strings.ToLower(unit)]
	switch {
	case l.unlimited && known:
		f.fail(unitAt, "should not specify rate limit unit when unlimited")
	case l.unlimited:
	case !known:
		f.fail(unitAt, "invalid rate limit unit '%.64s'; one of second, minute, hour, day, week, month, year", unit)
	case multiplier == 0 || multiplier > int64(algorithm.MaxWindow/window):
		f.fail(n.At, "unit_multiplier %d is not from 1 to %d, beside the unit %s", multiplier, int64(algorithm.MaxWindow/window), unit)
	default:
		l.window = window * time.Duration(multiplier)
		if err := l.terms().Validate(); err != nil {
			f.fail(n.At, "%v", err)
		}
	}
}

// algorithm reads the algorithm.
func (f *file) algorithm(n *node) (a penstock.Algorithm) {
	if err := a.UnmarshalText([]byte(f.text(n))); err != nil {
		f.fail(n.At, "%v", err)
	}
	return a
}

func (f *file) replaces(l *limit, n *node) {
	for _, item := range f.mappings(n) {
		var name string
		f.fields(item, map[string]func(*node){"name": func(n *node) { name = f.text(n) }})
		switch {
		case name == "":
			f.fail(item.At, "should not have an empty replaces entry")
		case name == l.name:
			f.fail(item.At, "replaces should not contain name of same descriptor")
		default:
			l.replaces = append(l.replaces, name)
		}
	}
}
