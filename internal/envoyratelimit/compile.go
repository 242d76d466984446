package envoyratelimit

import (
	"fmt"
	"strconv"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// Compile compiles each limit in the files to a rule for the engine. The snapshot's Matcher is the *Config. It is
// meant for Options.Read of package rules/live.
func (o Options) Compile(files []rules.File, r rules.Options) (*rules.Snapshot, rules.Problems, error) {
	c, warnings, err := Load(files, o)
	if err != nil {
		return nil, warnings, err
	}
	s := rules.NewSnapshot(r)
	s.Matcher = c
	for _, domain := range c.order {
		b := compiler{s, domain, o.Together, o.Bans}
		if err := b.level(c.domains[domain], nil); err != nil {
			return nil, warnings, err
		}
	}
	return s, warnings, nil
}

// A compiler adds the limits of one domain to a snapshot.
type compiler struct {
	*rules.Snapshot
	domain   string
	together bool
	bans     bool
}

// level compiles the descriptors of one level and all levels below.
func (c *compiler) level(l *level, above []*descriptor) error {
	for _, d := range l.all {
		way := append(above[:len(above):len(above)], d)
		if d.limit != nil && !d.limit.unlimited {
			if err := d.limit.compile(c.Hasher, c.domain, way, c.together); err != nil {
				return fmt.Errorf("%s: %w", d.limit.path, err)
			}
			d.limit.nameStats(way)
			if c.bans {
				d.limit.rule.Penalty = byHand
			}
			d.limit.rule.Index = len(c.Rules)
			c.Rules = append(c.Rules, d.limit.rule)
		}
		if err := c.level(d.below, way); err != nil {
			return err
		}
	}
	return nil
}

// nameStats records how the statistics of the limit are named.
func (l *limit) nameStats(way []*descriptor) {
	l.way, l.isByValue = way, l.isDetailed
	for _, d := range way {
		l.isShared = l.isShared || d.shared
		l.isByValue = l.isByValue || d.isNamedByValue && !d.shared
	}
}

// compile makes a rule of the limit at the end of a path of descriptors. The rule counts by the entries of the
// request, not by the entry of the files that matched: the files can change without losing counters.
//
// The rule counts every request, unless it is charged together with others or uses another algorithm than fixed
// windows: a cost that comes with the response is counted even if it exceeds what remains. Both kinds share their
// state.
func (l *limit) compile(h storage.Hasher, domain string, way []*descriptor, together bool) error {
	l.alone = !together || l.shadow || l.quota
	meter, err := l.terms().Compile()
	if err != nil {
		return err
	}
	names, shared := make([]string, len(way)), uint64(0)
	l.patterns = make([]string, len(way))
	policy := l.policy()
	l.rule = &rules.Rule{
		Name: policy, Key: make([]rules.KeyPart, len(way)),
		Limits: []*algorithm.Meter{meter}, Policies: []string{policy}, OnStoreError: rules.FailLocal,
	}
	for i, d := range way {
		names[i], l.rule.Key[i].Name = d.key, d.key
		if d.shared {
			l.patterns[i] = d.value
			shared |= 1 << i
		}
	}
	counted := "envoy ratelimit" // cannot be the name of an ordinary rule
	if shared != 0 {
		counted += " shared " + strconv.FormatUint(shared, 2)
	}
	l.rule.Subjects = h.Rule(domain, counted, names...)
	if l.shadow {
		l.rule.Mode = rules.Shadow
	}
	return nil
}
