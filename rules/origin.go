package rules

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// An Origin has the rules somewhere: in files, a database, Redis.
type Origin interface {
	// Read returns what is there now. An error wraps [ErrNoRules] where nobody wrote any yet.
	Read(ctx context.Context) (*Text, error)

	// Watch calls changed when it begins to listen and whenever there may be something new, until
	// ctx ends, and returns then. It only makes learning faster: what it misses, the next Read
	// finds. Where listening fails it tells why and tries again. It calls both one at a time.
	Watch(ctx context.Context, changed func(), failed func(error))

	// String says where it is, without a password.
	String() string
}

// ErrNoRules is wrapped by the error of an origin that works and has no rules yet.
var ErrNoRules = errors.New("no rules yet")

// A File is a part of the rules, and what problems with it call it.
type File struct {
	Name string
	Data []byte
}

// A Text is the rules as an origin has them. It is immutable.
type Text struct {
	Version   int64     // 0 where the origin does not number
	Published time.Time // zero if unknown
	Files     []File    // at least one; several are one set of rules

	checksum string
}

// NewText returns a text that must not be changed any more, nor may its files.
func NewText(version int64, published time.Time, files ...File) *Text {
	t := &Text{Version: version, Published: published, Files: files}
	h := sha256.New()
	for _, f := range files {
		if len(files) > 1 { // or a rule could wander between files unnoticed
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

// Checksum is the SHA-256 of the file, in hex; of several, of their names and contents.
func (t *Text) Checksum() string { return t.checksum }

// Same tells whether both are the same version with the same contents.
func (t *Text) Same(other *Text) bool {
	return t != nil && other != nil && t.Version == other.Version && t.checksum == other.checksum
}
