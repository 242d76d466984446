package envoyratelimit

import (
	"regexp"
	"strings"

	"github.com/penstock-io/penstock"
)

var (
	ipv4     = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)
	reserved = strings.NewReplacer(":", "_", "|", "_") // characters of statsd
)

// sanitize replaces characters that have a meaning in names of statistics.
func sanitize(name string) string {
	return ipv4.ReplaceAllStringFunc(reserved.Replace(name), func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}

// statName returns the name that envoyproxy/ratelimit gives to the statistics of a limit for a descriptor: the path
// to it, with the descriptor's own values if detailed_metric or value_to_metric ask for them.
func (l *limit) statName(domain string, entries []penstock.Attribute) string {
	if l.way == nil {
		return domain + "." + ownName(entries)
	}
	var b strings.Builder
	b.WriteString(domain)
	for i, e := range entries {
		b.WriteByte('.')
		b.WriteString(e.Name)
		if value, always := l.statValue(i, e.Value); value != "" || always {
			b.WriteByte('_')
			b.WriteString(value)
		}
	}
	return b.String()
}

// statValue returns the value of an entry in the name; always: even if it is empty.
func (l *limit) statValue(i int, value string) (_ string, always bool) {
	d := l.way[i]
	switch {
	case d.shared:
		return d.value, false
	case l.isDetailed:
		return value, !l.isShared
	case d.isNamedByValue:
		return value, false
	}
	return d.value, false
}

// ownName returns the name for the statistics of a limit in a descriptor. Empty parts at the start are not followed
// by a dot.
func ownName(entries []penstock.Attribute) string {
	name := ""
	for _, e := range entries {
		if name != "" {
			name += "."
		}
		name += e.Name
		if e.Value != "" {
			name += "_" + e.Value
		}
	}
	return name
}
