package penstock

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// The name of a limiter's reservation holds what any node needs to conclude it, and a keyed checksum that
// binds it to the limiter's name and the counters of its limits.
//
//	version(1) flags(1) subject(16) nonce(8) checksum(8), in base64url
const (
	sealVersion    = 1
	sealPermits    = 1 << 0 // in flags: only permits were taken under the nonce
	sealBodyBytes  = 1 + 1 + 16 + 8
	sealBytes      = sealBodyBytes + sealCheckBytes
	sealCheckBytes = 8
)

// A sealer encodes and decodes names of reservations.
type sealer struct {
	hasher storage.Hasher
	about  string // what the checksum covers besides the body
}

func newSealer(h storage.Hasher, counters string, meters []*algorithm.Meter) sealer {
	about := append([]byte("limiter\x00"), counters...)
	about = append(about, 0)
	for _, m := range meters {
		about = binary.BigEndian.AppendUint64(about, m.Fingerprint)
	}
	return sealer{h, string(about)}
}

func (s *sealer) checksum(body []byte) []byte {
	sum := s.hasher.Call(s.about + string(body))
	return sum[:sealCheckBytes]
}

func (s *sealer) reservation(g *storage.Group, nonce uint64) string {
	id := append(make([]byte, 0, sealBytes), sealVersion, 0)
	if g.Reserve == 0 {
		id[1] = sealPermits
	}
	id = binary.BigEndian.AppendUint64(append(id, g.Subject[:]...), nonce)
	return base64.RawURLEncoding.EncodeToString(append(id, s.checksum(id)...))
}

func (s *sealer) open(reservation string) (subject storage.Subject, nonce uint64, onlyPermits bool, err error) {
	var id []byte
	if len(reservation) == base64.RawURLEncoding.EncodedLen(sealBytes) {
		id, err = base64.RawURLEncoding.Strict().DecodeString(reservation)
	}
	if err != nil || len(id) != sealBytes || id[0] != sealVersion || subtle.ConstantTimeCompare(s.checksum(id[:sealBodyBytes]), id[sealBodyBytes:]) == 0 {
		return storage.Subject{}, 0, false, fmt.Errorf("reservation %.64q: %w: it is malformed, or was made by a limiter with another name, other limits or another secret", reservation, ErrNoReservation)
	}
	return storage.Subject(id[2:18]), binary.BigEndian.Uint64(id[18:]), id[1] == sealPermits, nil
}

// Conclude settles, releases or renews a reservation. It ignores Conclusion.Response: the cost of a limiter
// does not come from the response. The verdict names the reservation if it is still open.
func (l *Limiter) Conclude(ctx context.Context, c *Conclusion, v *Verdict) error {
	v.Reset()
	return l.wrap(c.Verb.String(), l.conclude(ctx, c, v))
}

func (l *Limiter) conclude(ctx context.Context, c *Conclusion, v *Verdict) error {
	subject, nonce, onlyPermits, err := l.seal.open(c.Reservation)
	if err != nil {
		return err
	}
	settler, ok := l.store.(storage.Settler)
	if !ok {
		return fmt.Errorf("%w: the store is not a storage.Settler", ErrInvalid)
	}
	s := storage.Settlement{Subject: subject, Nonce: nonce, Verb: c.Verb, Overage: algorithm.OverageDebt}
	var meters []*algorithm.Meter
	for _, m := range l.meters {
		if m.Kind == algorithm.KindLeases || !onlyPermits {
			meters = append(meters, m)
			s.Charges = append(s.Charges, algorithm.Charge{Meter: m, Cost: c.Cost})
		}
	}
	if c.Verb == Renew {
		s.TTL = cmp.Or(c.TTL, l.reserve)
	}
	var out storage.SettleOutcome
	if err := settler.Settle(ctx, &s, &out); err != nil {
		return err
	}
	v.Allowed, v.Now = out.Allowed, out.Now
	if !v.Allowed {
		v.Reason = ReasonOverLimit
	}
	if c.Verb == Renew {
		v.Reservation, v.ReservedFor = c.Reservation, l.openFor(out.Until.Sub(out.Now))
	}
	l.report(v, meters, out.Decisions)
	return nil
}

func (l *Limiter) concludeOnce(ctx context.Context, c *Conclusion) (Decision, error) {
	w := l.work()
	defer l.works.Put(w)
	err := l.Conclude(ctx, c, &w.verdict)
	return w.verdict.decision(), err
}
