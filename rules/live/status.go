package live

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/rules"
)

// A Status says what a [Rules] serves, and what prevents something newer.
type Status struct {
	// What is served. Version is 0 if the origin has no version numbers or no rules yet. In the latter case the
	// checksum is empty too.
	Version   int64
	Checksum  string
	Published time.Time // zero if unknown
	Since     time.Time // start of serving
	FromCopy  bool      // served from the copy on disk, because the origin could not be read at the start
	Empty     bool      // there are no rules and no deny list: every request is allowed
	Warnings  rules.Problems

	// Propagation is the time from Published to Since for rules that arrived while following. It is 0 for those
	// served at the start, which may be at any later time. The two times may come from different clocks.
	Propagation time.Duration

	Refused  *Rejection // what the origin holds but cannot be served; nil if nothing
	Refusals int64      // texts rejected since the start

	Looked  time.Time // when the origin was last read
	Err     error     // why it could not be read since; nil if it could
	PushErr error     // why the origin does not report changes, so that only polling finds them
	CopyErr error     // why the served rules are not kept on disk
}

// A Rejection is a text that does not compile.
type Rejection struct {
	Version  int64
	Checksum string
	At       time.Time
	Err      error // of type [rules.Problems]
}

// statusNews is the part of a status whose changes are reported.
type statusNews struct {
	told               bool
	version            int64
	checksum           string
	fromCopy           bool
	refusedVersion     int64
	refused            string
	err, push, copying string
}

// notify calls Changed if there is news.
func (l *Rules) notify() {
	s := l.Status()
	now := statusNews{
		told: true, version: s.Version, checksum: s.Checksum, fromCopy: s.FromCopy,
		err: fmt.Sprint(s.Err), push: fmt.Sprint(s.PushErr), copying: fmt.Sprint(s.CopyErr),
	}
	if s.Refused != nil {
		now.refusedVersion, now.refused = s.Refused.Version, s.Refused.Checksum
	}
	if now == l.told {
		return
	}
	l.told = now
	if l.options.Changed != nil {
		l.options.Changed(s)
	}
}
