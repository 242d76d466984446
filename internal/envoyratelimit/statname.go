package envoyratelimit

import (
	"regexp"
	"strings"

	"github.com/penstock-io/penstock"
)

type attribute = penstock.Attribute

var (
	ipv4     = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)
	reserved = strings.NewReplacer(":", "_", "|", "_") // characters of statsd
)

// sanitize returns the name of a statistic without characters that mean something else there.
func sanitize(name string) string {
	return ipv4.ReplaceAllStringFunc(reserved.Replace(name), func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}

// statName is what envoyproxy/ratelimit calls the statistics of a limit for a descriptor: the way to it, with
// the descriptor's own values where detailed_metric or value_to_metric want them.
func (l *limit) statName(domain string, entries []attribute) string {
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

// statValue is what an entry is called by; always: also if that is nothing.
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

// ownName names the statistics of a limit that comes with its descriptor. What is empty at the beginning has no
// dot behind it.
func ownName(entries []attribute) string {
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
