package decisionlog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/penstock-io/penstock"
)

// A kind is what is counted separately for each rule, or for each cause of store failures.
type kind uint8

const (
	allowed kind = iota
	denied
	invalidCall
	storeFailure
	ruleFailure
	badNumber
	kinds
)

// records are the kinds as they are logged.
var records = [kinds]struct {
	level    slog.Level
	by, text string // what it is counted by, and the message
}{
	allowed:      {slog.LevelInfo, "rule", "allowed"},
	denied:       {slog.LevelWarn, "rule", "denied"},
	invalidCall:  {slog.LevelWarn, "rule", "invalid call"},
	storeFailure: {slog.LevelError, "cause", "the store failed"},
	ruleFailure:  {slog.LevelError, "rule", "a rule could not be evaluated"},
	badNumber:    {slog.LevelWarn, "rule", "data is not the number of a limit, using its default"},
}

func kindOf(v *penstock.Verdict) kind {
	if v.Allowed {
		return allowed
	}
	return denied
}

// A sampler counts by rule, or cause, and kind since the last summary. The zero value is ready to use.
type sampler struct {
	mu    sync.RWMutex
	rules map[string]*counts
}

type counts [kinds]atomic.Int64

// count counts a record. It returns its number and whether to log it.
func (s *sampler) count(rule string, k kind) (nth int64, keep bool) {
	s.mu.RLock()
	c := s.rules[rule]
	if c != nil {
		nth = c[k].Add(1)
	}
	s.mu.RUnlock()
	if c == nil {
		nth = s.first(rule, k)
	}
	return nth, powerOfTen(nth)
}

func (s *sampler) first(rule string, k kind) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rules == nil {
		s.rules = map[string]*counts{}
	}
	if s.rules[rule] == nil {
		s.rules[rule] = new(counts)
	}
	return s.rules[rule][k].Add(1)
}

// take returns the counts and resets them.
func (s *sampler) take() map[string]*counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.rules
	s.rules = nil
	return taken
}

func powerOfTen(n int64) bool {
	for n >= 10 && n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// summary logs the number of records of each rule and kind, unless all of them were logged.
func (l *Log) summary() {
	for _, s := range []*sampler{&l.sampled, &l.failing} {
		taken := s.take()
		for _, rule := range slices.Sorted(maps.Keys(taken)) {
			for k := range kinds {
				if n := taken[rule][k].Load(); n > 1 {
					l.options.Log.LogAttrs(context.Background(), records[k].level, records[k].text+", total",
						slog.String(records[k].by, rule), slog.Int64("count", n), slog.Float64("within_seconds", l.options.Every.Seconds()))
				}
			}
		}
	}
}
