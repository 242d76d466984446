package envoyratelimit

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// known are all keys, wherever they mean something.
var known = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces",
	"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
}

// fields hands each field to who reads it. One that belongs elsewhere means nothing, as it does to
// the service whose files they are; that is hardly what somebody wanted.
func (f *file) fields(n *node, read map[string]func(*node)) {
	seen := map[string]bool{}
	for i := range n.items {
		item := &n.items[i]
		switch set := read[item.key]; {
		case item.otherKey:
			f.fail(item.keyAt, "config error, key is not of type string: %.64s", item.key)
		case seen[item.key]:
			f.fail(item.keyAt, "error loading config file: %.64s is given twice", item.key)
		case set != nil:
			set(item)
		case slices.Contains(known, item.key):
			f.warn(item.keyAt, "%s means nothing here: it belongs elsewhere", item.key)
		default:
			f.fail(item.keyAt, "config error, unknown key '%.64s'", item.key)
		}
		seen[item.key] = true
	}
}

// text is any single value, as it is written.
func (f *file) text(n *node) string {
	if n.kind != scalar && n.kind != nothing {
		f.fail(n.at, "error loading config file: %s must be a single value, not %v", n.key, n.kind)
	}
	return n.text
}

// bool knows all that YAML 1.1 takes for one.
func (f *file) bool(n *node) bool {
	if n.kind == nothing {
		return false
	}
	if n.kind == scalar && n.plain {
		switch strings.ToLower(n.text) {
		case "true", "yes", "on", "y":
			return true
		case "false", "no", "off", "n":
			return false
		}
	}
	f.fail(n.at, "error loading config file: %s must be true or false, not %.64q", n.key, n.text)
	return false
}

func (f *file) uint32(n *node) int64 {
	if n.kind == nothing {
		return 0
	}
	number, err := strconv.ParseUint(n.text, 0, 32)
	if n.kind != scalar || !n.plain || err != nil {
		f.fail(n.at, "error loading config file: %s must be a number from 0 to 4294967295, not %.64q", n.key, n.text)
	}
	return int64(number)
}

// metadata reads anything that JSON can say.
func (f *file) metadata(n *node) map[string]any {
	if n.kind == nothing {
		return nil
	}
	if n.kind != mapping {
		f.fail(n.at, "error loading config file: metadata must be a mapping, not %v", n.kind)
		return nil
	}
	return n.value().(map[string]any)
}

func (n *node) value() any {
	switch n.kind {
	case mapping:
		fields := make(map[string]any, len(n.items))
		for i := range n.items {
			fields[n.items[i].key] = n.items[i].value()
		}
		return fields
	case list:
		items := make([]any, len(n.items))
		for i := range n.items {
			items[i] = n.items[i].value()
		}
		return items
	case nothing:
		return nil
	}
	if n.plain {
		if n.text == "true" || n.text == "false" {
			return n.text == "true"
		}
		if number, err := strconv.ParseFloat(n.text, 64); err == nil && !math.IsInf(number, 0) && !math.IsNaN(number) {
			return number
		}
	}
	return n.text
}
