package envoyratelimit

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/internal/strictdoc"
)

// known are all keys, wherever they are valid.
var known = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces",
	"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
	"unit_multiplier", "algorithm", "burst", // extensions of Penstock
}

// fields passes each field to its reader. A field in the wrong place has no effect, as in envoyproxy/ratelimit; it
// gets a warning, since it is hardly intended.
func (f *file) fields(n *node, read map[string]func(*node)) {
	seen := map[string]bool{}
	for i := range n.Items {
		item := &n.Items[i]
		switch set := read[item.Key]; {
		case !isString(item):
			f.fail(item.KeyAt, "config error, key is not of type string: %.64s", item.Key)
		case seen[item.Key]:
			f.fail(item.KeyAt, "error loading config file: %.64s is given twice", item.Key)
		case set != nil:
			set(item)
		case slices.Contains(known, item.Key):
			f.warn(item.KeyAt, "%s means nothing here: it belongs elsewhere", item.Key)
		default:
			f.fail(item.KeyAt, "config error, unknown key '%.64s'", item.Key)
		}
		seen[item.Key] = true
	}
}

// text returns any scalar value, as written.
func (f *file) text(n *node) string {
	if n.Kind != scalar && n.Kind != nothing {
		f.fail(n.At, "error loading config file: %s must be a single value, not %v", n.Key, n.Kind)
	}
	return n.Text
}

// bool accepts all booleans of YAML 1.1.
func (f *file) bool(n *node) bool {
	if n.Kind == nothing {
		return false
	}
	if n.Kind == scalar && n.Style == strictdoc.Plain {
		switch strings.ToLower(n.Text) {
		case "true", "yes", "on", "y":
			return true
		case "false", "no", "off", "n":
			return false
		}
	}
	f.fail(n.At, "error loading config file: %s must be true or false, not %.64q", n.Key, n.Text)
	return false
}

func (f *file) uint32(n *node) int64 {
	if n.Kind == nothing {
		return 0
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(n.Text, "+"), 0, 32)
	if n.Kind != scalar || n.Style != strictdoc.Plain || err != nil {
		f.fail(n.At, "error loading config file: %s must be a number from 0 to 4294967295, not %.64q", n.Key, n.Text)
	}
	return int64(number)
}

// metadata reads any value that JSON can express.
func (f *file) metadata(n *node) map[string]any {
	if n.Kind == nothing {
		return nil
	}
	if n.Kind != mapping {
		f.fail(n.At, "error loading config file: metadata must be a mapping, not %v", n.Kind)
		return nil
	}
	return valueOf(n).(map[string]any)
}

func valueOf(n *node) any {
	switch n.Kind {
	case mapping:
		fields := make(map[string]any, len(n.Items))
		for i := range n.Items {
			fields[n.Items[i].Key] = valueOf(&n.Items[i])
		}
		return fields
	case list:
		items := make([]any, len(n.Items))
		for i := range n.Items {
			items[i] = valueOf(&n.Items[i])
		}
		return items
	case nothing:
		return nil
	}
	if n.Style == strictdoc.Plain {
		if n.Text == "true" || n.Text == "false" {
			return n.Text == "true"
		}
		if number, err := strconv.ParseFloat(n.Text, 64); err == nil && !math.IsInf(number, 0) && !math.IsNaN(number) {
			return number
		}
	}
	return n.Text
}
