package live

import (
	"time"

	"github.com/penstock-io/penstock/rules"
)

// A Status tells what a [Rules] serves, and what stands in the way of something newer.
type Status struct {
	// What is served. Version is 0 where the origin does not number, or has no rules yet; then
	// there is no checksum either.
	Version   int64
	Checksum  string
	Published time.Time // zero if unknown
	Since     time.Time // served
	FromCopy  bool      // from the copy on disk, because the origin could not be read at the start
	Warnings  rules.Problems

	// Propagation is the time from Published to Since, if it was learned while following: 0 at a
	// start, which may be any time later. The two may be read from two machines' clocks.
	Propagation time.Duration

	Refused  *Refusal // what the origin has but cannot be served; nil if nothing
	Refusals int64    // texts refused since the start

	Looked  time.Time // when the origin was last read
	Err     error     // why it could not be read since; nil if it was
	PushErr error     // why it does not tell of changes: only polling finds them
	CopyErr error     // why what is served is not kept on disk
}

// A Refusal is a text that does not compile.
type Refusal struct {
	Version  int64
	Checksum string
	At       time.Time
	Err      error // of type [rules.Problems]
}

// news is the part of a status that is worth telling when it changes.
type news struct {
	told               bool
	version            int64
	checksum           string
	fromCopy           bool
	refusedVersion     int64
	refused            string
	err, push, copying string
}

// tell calls Changed if there is something new.
func (l *Rules) tell() {
	s := l.Status()
	now := news{
		told: true, version: s.Version, checksum: s.Checksum, fromCopy: s.FromCopy,
		err: textOf(s.Err), push: textOf(s.PushErr), copying: textOf(s.CopyErr),
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

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
