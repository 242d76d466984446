package membership

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
)

// A Node is what a node says of itself. Its texts are words, see [Word].
type Node struct {
	Name    string    // for people; several may have the same
	Version string    // of Penstock
	Started time.Time // in whole seconds

	Rules    int64  // version of the rules that it serves; 0: they have none
	Checksum string // of these rules, the beginning of it

	Quality       string  // what its calls are decided on
	Calls, Denied float64 // a second, of late
}

// What a node's calls are decided on.
const (
	Exact    = "exact"
	Degraded = "degraded" // some without the shared state
)

// Bounds of what a node says.
const (
	maxWord  = 64
	maxSaid  = 512
	maxRate  = 1e12
	lastTime = 253402300799 // of the year 9999
)

// format is the version of how nodes write what they say. Fields may be added to it, as who does not
// know them leaves them out; where one is to mean something else it is another format, which nodes
// before it cannot read, and show as a node that says nothing.
const format = 1

// said is a node as it is written.
type said struct {
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

// write returns what a node says. What it cannot say is put so that it can: it is about itself.
func (n *Node) write() string {
	text, err := json.Marshal(said{
		Format: format, Name: Word(n.Name), Version: Word(n.Version), Started: n.Started.Unix(),
		Rules: n.Rules, Checksum: Word(n.Checksum), Quality: Word(n.Quality), Calls: round(n.Calls), Denied: round(n.Denied),
	})
	if err != nil {
		return "" // words and finite numbers: it cannot be
	}
	return string(text)
}

// round keeps three digits: nobody reads more.
func round(rate float64) float64 {
	if !(rate > 0) {
		return 0
	}
	return math.Round(min(rate, maxRate)*1000) / 1000
}

// readNode reads what a node said. It fails on everything that no node would say: anybody who can write
// where nodes look could have.
func readNode(text string) (*Node, error) {
	if len(text) > maxSaid {
		return nil, fmt.Errorf("read what a node says: %w: %d bytes, must be at most %d", penstock.ErrInvalid, len(text), maxSaid)
	}
	var s said
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("read what a node says: %w: %w", penstock.ErrInvalid, err)
	}
	if s.Format != format {
		return nil, fmt.Errorf("read what a node says: %w: format %d, this version reads %d", penstock.ErrInvalid, s.Format, format)
	}
	for _, word := range []string{s.Name, s.Version, s.Checksum, s.Quality} {
		if !IsWord(word) {
			return nil, fmt.Errorf("read what a node says: %w: %.80q is no word", penstock.ErrInvalid, word)
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

// IsWord tells whether a text is of 1 to 64 letters, digits and -._:+() of ASCII: what host names and
// versions are made of, and nothing that anything could take for more.
func IsWord(text string) bool {
	return text != "" && len(text) <= maxWord && strings.IndexFunc(text, unfit) < 0
}

func unfit(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("-._:+()", r)
}

// Word makes a word of a text: what cannot be in one becomes a dash, and what is too much is cut off.
func Word(text string) string {
	word := strings.Map(func(r rune) rune {
		if unfit(r) {
			return '-'
		}
		return r
	}, text)
	if word == "" {
		return "-"
	}
	return word[:min(len(word), maxWord)]
}
