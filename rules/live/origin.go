package live

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/penstock-io/penstock/rules"
)

// An Origin is where rules are kept: files, a database, Redis.
type Origin interface {
	// Read returns the current rules. The error wraps [ErrNoRules] if none have been written yet.
	Read(ctx context.Context) (*Text, error)

	// Watch calls changed when it starts to listen and whenever there may be a change. It returns when ctx ends. It
	// only makes changes arrive faster: the next Read finds those it misses. If listening fails, it calls failed and
	// tries again. It never calls the two at the same time.
	Watch(ctx context.Context, changed func(), failed func(error))

	// String returns the location, without a password.
	String() string
}

// ErrNoRules is wrapped by the error of an origin that works and has no rules yet.
var ErrNoRules = errors.New("no rules yet")

// A Text is the rules as an origin holds them. It is immutable and compiled once.
type Text struct {
	Version   int64        // 0 if the origin has no version numbers
	Published time.Time    // zero if unknown
	Files     []rules.File // at least one; several are one set of rules

	checksum string
	compiled *compilation
}

// A compilation is the result of compiling a text, and the options used.
type compilation struct {
	mu       sync.Mutex // held while the text is compiled
	done     bool
	options  rules.Options
	snapshot *rules.Snapshot
	warnings rules.Problems
	err      error
}

// NewText returns a text. Neither it nor its files may be changed afterwards.
func NewText(version int64, published time.Time, files ...rules.File) *Text {
	t := &Text{Version: version, Published: published, Files: files, compiled: new(compilation)}
	h := sha256.New()
	for _, f := range files {
		if len(files) > 1 { // otherwise a rule could move between files unnoticed
			for _, n := range []int{len(f.Name), len(f.Data)} {
				h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
			}
			h.Write([]byte(f.Name))
		}
		h.Write(f.Data)
	}
	t.checksum = hex.EncodeToString(h.Sum(nil))
	return t
}

// Checksum returns the SHA-256 of the file in hex or, for several files, of their names and contents.
func (t *Text) Checksum() string { return t.checksum }

// PublishedAt returns the text with another time of publication. The two share one compilation.
func (t *Text) PublishedAt(at time.Time) *Text {
	published := *t
	published.Published = at
	return &published
}

// Compile is [rules.CompileContext] with the text's version. It compiles the text once for the same options.
func (t *Text) Compile(ctx context.Context, o rules.Options) (*rules.Snapshot, rules.Problems, error) {
	o.Version = t.Version
	c := t.compiled
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done && reflect.DeepEqual(c.options, o) {
		return c.snapshot, c.warnings, c.err
	}
	snapshot, warnings, err := rules.CompileContext(ctx, t.Files, o)
	if ctx.Err() == nil { // otherwise the error says nothing about the rules
		c.done, c.options, c.snapshot, c.warnings, c.err = true, o, snapshot, warnings, err
	}
	return snapshot, warnings, err
}

// Same reports whether both are the same version with the same contents.
func (t *Text) Same(other *Text) bool {
	return t != nil && other != nil && t.Version == other.Version && t.checksum == other.checksum
}
