package redisstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Reset forgets what the group names, and announces that to all nodes. It also removes corrupt or foreign
// data under these keys.
func (s *Store) Reset(ctx context.Context, g *storage.Group) error {
	if err := g.ValidateReset(); err != nil {
		return err
	}
	a := amendment{verb: verbReset}
	a.keys.add(appendSubjectKey(nil, s.prefix, g.Subject))
	a.keys.add(appendReservationsKey(nil, s.prefix, g.Subject))
	meters := make([]*algorithm.Meter, 0, len(g.Charges)+1)
	for _, c := range g.Charges {
		meters = append(meters, c.Meter)
	}
	if g.Dedup != nil {
		meters = append(meters, g.Dedup.Budget)
	}
	for _, m := range meters {
		a.meter(s.prefix, g.Subject, m, 0)
	}
	a.charge(0, formPenal, 0)                            // last: the script does not read the bans after it
	a.body = appendPenalty(a.body, &algorithm.Penalty{}) // a penalty has one state, whatever its terms are
	reply, err := s.run(ctx, &a, 0)
	if err == nil {
		err = s.announce(ctx, ClearEvent{Subject: g.Subject, At: reply.now})
	}
	if err != nil {
		return fmt.Errorf("redis: reset: %w", err)
	}
	return nil
}

// do sends an operator's command, within the caller's deadline and the store's patience.
func (s *Store) do(ctx context.Context, client rueidis.Client, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	var m rueidis.RedisMessage
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	_, err := s.await(ctx, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, s.patience)
		defer cancel()
		reply, err := s.conns.Load().do(ctx, client, cmd).ToMessage()
		if rueidis.IsRedisNil(err) {
			err = nil
		}
		if err == nil {
			m = reply
		}
		return "", timedOut(err, s.patience)
	})
	if err != nil { // the command may still be in flight
		return rueidis.RedisMessage{}, err
	}
	return m, nil
}

func replyError(what string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(e.Error(), "WRONGTYPE") {
		err = fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
	}
	return fmt.Errorf("redis: %s: %w: %w", what, storage.ErrUnavailable, err)
}

// Reservations returns some of the subject's reservations, ordered by nonce, and their number. The number
// is exact if it is at most most. Otherwise it is what Redis holds, including expired reservations that have
// not been removed yet.
func (s *Store) Reservations(ctx context.Context, now algorithm.Instant, who storage.Subject, most int) ([]storage.Reservation, int64, error) {
	if err := storage.ValidateInspection(now, most); err != nil {
		return nil, 0, err
	}
	if err := s.checkConnected(); err != nil {
		return nil, 0, err
	}
	client := s.conns.Load().pipelined
	key := string(appendReservationsKey(nil, s.prefix, who))
	size, err := s.do(ctx, client, client.B().Hlen().Key(key).Build())
	if err != nil {
		return nil, 0, replyError("count reservations", err)
	}
	total, err := size.AsInt64()
	if err != nil {
		return nil, 0, replyError("count reservations", err)
	}
	var found []storage.Reservation
	whole := false
	for cursor := uint64(0); ; {
		page, err := s.do(ctx, client, client.B().Hscan().Key(key).Cursor(cursor).Count(1000).Build())
		if err != nil {
			return nil, 0, replyError("list reservations", err)
		}
		entry, err := page.AsScanEntry()
		if err == nil {
			found, err = appendLive(found, entry.Elements, now)
		}
		if err != nil {
			return nil, 0, replyError("list reservations", err)
		}
		cursor = entry.Cursor
		if whole = cursor == 0; whole || len(found) > most {
			break
		}
	}
	slices.SortFunc(found, func(a, b storage.Reservation) int { return cmp.Compare(a.Nonce, b.Nonce) })
	// HSCAN may return a field twice.
	found = slices.CompactFunc(found, func(a, b storage.Reservation) bool { return a.Nonce == b.Nonce })
	if whole {
		total = int64(len(found))
	}
	return found[:min(most, len(found))], total, nil
}

// appendLive adds the reservations in a page of names and values that have not expired at an instant; at 0
// it adds all.
func appendLive(found []storage.Reservation, page []string, now algorithm.Instant) ([]storage.Reservation, error) {
	for i := 0; i+1 < len(page); i += 2 {
		if len(page[i]) == len(holdID{}) {
			continue // see across.go
		}
		r, err := unpackReservation(page[i], page[i+1])
		if err != nil {
			return nil, err
		}
		if now == 0 || r.Live(now) {
			found = append(found, r)
		}
	}
	return found, nil
}

const receiptSize = 7 + 7 + 6 // fingerprint, at, cost

func unpackReservation(nonce, text string) (r storage.Reservation, err error) {
	if len(nonce) != 8 || len(text) < 8 || text[0] > 1 || (len(text)-8)%receiptSize != 0 {
		return r, fmt.Errorf("field %.32q: %w", nonce, storage.ErrCorrupt)
	}
	r.Nonce = binary.BigEndian.Uint64([]byte(nonce))
	r.Closed = text[0] == 1
	r.Until = algorithm.Instant(uint56(text[1:]))
	for b := text[8:]; len(b) > 0; b = b[receiptSize:] {
		r.Receipts = append(r.Receipts, algorithm.Receipt{
			Fingerprint: uint64(uint56(b)), At: algorithm.Instant(uint56(b[7:])), Cost: unpackAmount(b[14:]),
		})
	}
	return r, nil
}

// Keys lists subjects with SCAN, which visits a bounded number of keys at a time and blocks no other
// client; on a cluster it visits one master after the other. A subject with several keys may be listed more
// than once. The cursor is the address of a master and the position in it.
func (s *Store) Keys(ctx context.Context, tag storage.RuleTag, cursor string, about int) (page []string, next string, err error) {
	if about < 1 {
		return nil, "", fmt.Errorf("%w listing: about %d keys asked for, must be 1 or more", algorithm.ErrInvalid, about)
	}
	address, place, err := readCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	masters, err := s.masters(ctx)
	if err != nil {
		return nil, "", replyError("find the masters", err)
	}
	addresses := slices.Sorted(maps.Keys(masters))
	i, there := slices.BinarySearch(addresses, address)
	if !there {
		place = 0 // continue with the next one if this one is gone
	}
	if i == len(addresses) {
		return nil, "", nil
	}
	client := masters[addresses[i]]
	reply, err := s.do(ctx, client, client.B().Scan().Cursor(place).Match(s.pattern(tag)).Count(int64(about)).Build())
	if err != nil {
		return nil, "", replyError("list subjects", err)
	}
	entry, err := reply.AsScanEntry()
	if err != nil {
		return nil, "", replyError("list subjects", err)
	}
	for _, key := range entry.Elements {
		if who, ok := s.subjectOf(key); ok && who.Tag() == tag {
			page = append(page, who.String())
		}
	}
	slices.Sort(page)
	page = slices.Compact(page)
	switch {
	case entry.Cursor != 0:
		next = addresses[i] + "/" + strconv.FormatUint(entry.Cursor, 10)
	case i+1 < len(addresses):
		next = addresses[i+1] + "/0"
	}
	return page, next, nil
}

func readCursor(cursor string) (address string, place uint64, err error) {
	if cursor == "" {
		return "", 0, nil
	}
	i := strings.LastIndexByte(cursor, '/')
	if i >= 0 {
		place, err = strconv.ParseUint(cursor[i+1:], 10, 64)
	}
	if i < 0 || err != nil {
		return "", 0, fmt.Errorf("%w listing: cursor %.64q was not given out by Keys", algorithm.ErrInvalid, cursor)
	}
	return cursor[:i], place, nil
}

// pattern matches the keys of subjects that begin with the tag. Four bytes are five and a third characters
// of base64; the rest is compared when a key is read.
func (s *Store) pattern(tag storage.RuleTag) string {
	var b strings.Builder
	for i := range len(s.prefix) {
		if strings.IndexByte(`*?[]\^-`, s.prefix[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s.prefix[i])
	}
	b.WriteByte('{')
	b.WriteString(base64.RawURLEncoding.EncodeToString(tag[:])[:5])
	b.WriteByte('*')
	return b.String()
}

// subjectOf reads the subject from a key of this store.
func (s *Store) subjectOf(key string) (who storage.Subject, ok bool) {
	key, ok = strings.CutPrefix(key, s.prefix+"{")
	tag, _, closed := strings.Cut(key, "}")
	if !ok || !closed || base64.RawURLEncoding.DecodedLen(len(tag)) != len(who) {
		return who, false
	}
	_, err := base64.RawURLEncoding.Decode(who[:], []byte(tag))
	return who, err == nil
}

// masters returns the servers that hold state, by address.
func (s *Store) masters(ctx context.Context) (map[string]rueidis.Client, error) {
	if err := s.checkConnected(); err != nil {
		return nil, err
	}
	pipelined := s.conns.Load().pipelined
	if len(s.lanes) == 1 {
		return map[string]rueidis.Client{"": pipelined}, nil
	}
	masters := map[string]rueidis.Client{}
	for address, client := range pipelined.Nodes() {
		role, err := s.do(ctx, client, client.B().Role().Build())
		if err != nil {
			return nil, err
		}
		parts, err := role.ToArray()
		if err != nil {
			return nil, err
		}
		if len(parts) == 0 {
			return nil, errors.New("the role of a server is empty")
		}
		if is, err := parts[0].ToString(); err == nil && is == "master" {
			masters[address] = client
		}
	}
	return masters, nil
}

// Size returns how many keys the servers hold, including keys of other applications.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	masters, err := s.masters(ctx)
	if err != nil {
		return 0, replyError("find the masters", err)
	}
	for _, client := range masters {
		reply, err := s.do(ctx, client, client.B().Dbsize().Build())
		if err != nil {
			return 0, replyError("count keys", err)
		}
		n, err := reply.AsInt64()
		if err != nil {
			return 0, replyError("count keys", err)
		}
		size += n
	}
	return size, nil
}
