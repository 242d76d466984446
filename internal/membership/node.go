package membership

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
)

// A Node is the set of facts that a node announces about itself. Its texts are words, see [Word].
type Node struct {
	Name    string    // for people; several may have the same
	Version string    // of Penstock
	Started time.Time // in whole seconds

	Rules    int64  // version of the rules that it serves; 0: they have none
	Checksum string // the beginning of the checksum of these rules

	Quality       string  // what its verdicts are based on
	Calls, Denied float64 // recent rates per second
}

// Values of Node.Quality.
const (
	Exact    = "exact"
	Degraded = "degraded" // some without the shared state
)

// Bounds of a node's facts.
const (
	maxWord  = 64
	maxSaid  = 512
	maxRate  = 1e12
	lastTime = 253402300799 // of the year 9999
)

// format is the version of the encoding of a node's facts. Fields may be added to it, because nodes that do
// not know them ignore them. If the meaning of a field changes, the format changes: older nodes cannot read
// it, and show a node without facts.
const format = 1

// nodeMessage is the encoded form of a node.
type nodeMessage struct {
	Format   int     `json:"v"`
	Name     string  `json:"name"`
	Version  string  `json:"version"`
	Started  int64   `json:"started"`
	Rules    int64   `json:"rules"`
	Checksum string  `json:"checksum"`
	Quality  string  `json:"quality"`
	Calls    float64 `json:"calls"`
	Denied   float64 `json:"denied"`
}

// write encodes the facts of a node. It replaces what is not valid.
func (n *Node) write() string {
	text, err := json.Marshal(nodeMessage{
		Format: format, Name: Word(n.Name), Version: Word(n.Version), Started: n.Started.Unix(),
		Rules: n.Rules, Checksum: Word(n.Checksum), Quality: Word(n.Quality), Calls: round(n.Calls), Denied: round(n.Denied),
	})
	if err != nil {
		return "" // cannot happen: there are only words and finite numbers
	}
	return string(text)
}

// round keeps three decimals, which is enough for people.
func round(rate float64) float64 {
	if !(rate > 0) {
		return 0
	}
	return math.Round(min(rate, maxRate)*1000) / 1000
}

// readNode decodes the facts of a node. It rejects everything that a node would not write: anyone with access
// to the shared place could have written it.
func readNode(text string) (*Node, error) {
	if len(text) > maxSaid {
		return nil, fmt.Errorf("read what a node says: %w: %d bytes, must be at most %d", penstock.ErrInvalid, len(text), maxSaid)
	}
	var s nodeMessage
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("read what a node says: %w: %w", penstock.ErrInvalid, err)
	}
	if s.Format != format {
		return nil, fmt.Errorf("read what a node says: %w: format %d, this version reads %d", penstock.ErrInvalid, s.Format, format)
	}
	for _, word := range []string{s.Name, s.Version, s.Checksum, s.Quality} {
		if !IsWord(word) {
			return nil, fmt.Errorf("read what a node says: %w: %.80q is not a word", penstock.ErrInvalid, word)
		}
	}
	if s.Rules < 0 || s.Started < 0 || s.Started > lastTime || !(s.Calls >= 0 && s.Calls <= maxRate) || !(s.Denied >= 0 && s.Denied <= maxRate) {
		return nil, fmt.Errorf("read what a node says: %w: a number is beyond its bounds", penstock.ErrInvalid)
	}
	return &Node{
		Name: s.Name, Version: s.Version, Started: time.Unix(s.Started, 0).UTC(),
		Rules: s.Rules, Checksum: s.Checksum, Quality: s.Quality, Calls: s.Calls, Denied: s.Denied,
	}, nil
}

// IsWord reports whether a text has 1 to 64 ASCII letters, digits and -._:+() only: enough for host names and
// versions, and safe in any context.
func IsWord(text string) bool {
	return text != "" && len(text) <= maxWord && strings.IndexFunc(text, isUnprintable) < 0
}

func isUnprintable(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("-._:+()", r)
}

// Word converts a text into a word: it replaces invalid characters with a dash, and truncates a long text.
func Word(text string) string {
	word := strings.Map(func(r rune) rune {
		if isUnprintable(r) {
			return '-'
		}
		return r
	}, text)
	if word == "" {
		return "-"
	}
	return word[:min(len(word), maxWord)]
}
