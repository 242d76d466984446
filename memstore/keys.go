package memstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Keys lists the subjects of a rule. Of most slots only the first 8 bytes of the subject are known, so a listed
// key is the part of its text that those bytes determine, and an ellipsis. A banned subject is listed in full:
// an operator must be able to lift every ban. Records of requests and reservations are not listed.
func (s *Store) Keys(ctx context.Context, tag storage.RuleTag, cursor string, about int) (page []string, next string, err error) {
	at, err := s.parsePosition(cursor)
	if err != nil {
		return nil, "", err
	}
	now, back := s.clock.now(), inverse(s.seed)
	list := func(k key, isBan bool) {
		low := k.place * back
		switch {
		case uint32(low) != binary.LittleEndian.Uint32(tag[:]):
		case isBan:
			page = append(page, s.bannedSubject(k).String())
		default:
			page = append(page, keyText(low))
		}
	}
	for looked := 0; at.shard < s.subjects(); {
		if err := ctx.Err(); err != nil {
			return nil, "", ended("list keys", err)
		}
		if looked >= about && looked > 0 {
			return page, s.printPosition(at), nil
		}
		n, place, more := s.shards[at.shard].walk(at.place, now, list)
		looked += n
		at.place = place
		if !more {
			at = position{at.shard + 1, math.MaxUint64}
		}
	}
	return page, "", nil
}

// Size returns the number of keys. It includes expired keys that have not been removed yet.
func (s *Store) Size(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, ended("count keys", err)
	}
	return s.Stats().Keys, nil
}

// walk visits a chunk's worth of slots, starting at a place, and lists each place that has live state. It
// returns where to continue. It takes the lock itself.
func (sh *shard) walk(from uint64, now algorithm.Instant, list func(k key, isBan bool)) (looked int, next uint64, more bool) {
	sh.lock()
	defer sh.unlock()
	last := from
	var found *slot // a live one of the last place, the ban's if there is one
	tell := func() {
		if found != nil {
			list(found.key, found.head&sortMask == banned)
			found = nil
		}
	}
	defer func() { tell() }()
	for i := sh.home(from); i < sh.size(); i++ {
		s := sh.at(i)
		if s.head == 0 || s.place > from {
			continue
		}
		if s.place != last {
			if looked >= chunkSlots { // only between places, or the rest of a place would be left out
				return looked, s.place, true
			}
			tell()
			last = s.place
		}
		looked++
		if isBan := s.head&sortMask == banned; !s.isShared() && s.left(now, false) > 0 && (found == nil || isBan) {
			found = s
		}
	}
	return looked, 0, false
}

// bannedSubject returns the subject of a ban, whose fingerprint is known.
func (s *Store) bannedSubject(k key) storage.Subject {
	return s.subjectAt(k, algorithm.PenaltyFingerprint)
}

// A position is where a listing continues. Tables are sorted by place, the greatest first, so however
// slots move between two pages, nothing that stays is left out.
type position struct {
	shard int
	place uint64
}

// printPosition hides the place itself, because it would reveal the seed.
func (s *Store) printPosition(at position) string {
	return fmt.Sprintf("%d:%x", at.shard, at.place*inverse(s.seed))
}

func (s *Store) parsePosition(cursor string) (position, error) {
	if cursor == "" {
		return position{0, math.MaxUint64}, nil
	}
	first, second, _ := strings.Cut(cursor, ":")
	shard, err := strconv.ParseUint(first, 10, 16)
	low, err2 := strconv.ParseUint(second, 16, 64)
	if err != nil || err2 != nil || shard >= uint64(s.subjects()) {
		return position{}, fmt.Errorf("%w cursor %q: must be empty, or what the page before returned", algorithm.ErrInvalid, cursor)
	}
	return position{int(shard), low * s.seed}, nil
}

// inverse returns the multiplicative inverse of an odd number. Each step doubles the number of correct
// bits, starting with three.
func inverse(odd uint64) uint64 {
	n := odd
	for range 5 {
		n *= 2 - odd*n
	}
	return n
}

// keyText returns the beginning of the text of a subject that begins with these bytes.
func keyText(low uint64) string {
	const known = 10 // characters of base64 that 8 bytes determine
	var subject storage.Subject
	binary.LittleEndian.PutUint64(subject[:8], low)
	return subject.String()[:known] + "…"
}
