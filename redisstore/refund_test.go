package redisstore_test

import (
	"context"
	"slices"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// refunds: every kind that can be refunded, by less than, as much as and more than was charged; at once,
// when the window ends and by a clock that stepped back; beside another limit of the subject that lasts
// longer.
func refunds(r scenarioRecorder) {
	refundable := slices.DeleteFunc(eachKind(20*time.Second), func(m *algorithm.Meter) bool { return !m.CanRefund() })
	counted := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 2, Window: time.Hour, CountAll: true}.MustCompile()
	for _, m := range append(refundable, counted) {
		start := monday - monday%algorithm.Instant(m.Window)
		for _, later := range []algorithm.Instant{0, 1, algorithm.Instant(m.Window) - 2, algorithm.Instant(m.Window) - 1, algorithm.Instant(m.Window), -seconds(1)} {
			for _, cost := range []int64{0, 1, 2, 3, algorithm.MaxCount} {
				who := stranger()
				r.refund(start, who, charge(m, 1)) // of nothing
				t := one(start+1, who, charge(m, 2), charge(spacious(), 5))
				t.Groups[0].Alone = true
				r.take(t)
				r.take(t)
				r.refund(start+1+later, who, charge(m, cost), charge(spacious(), 1))
				for _, after := range []algorithm.Instant{later, later + 1, algorithm.Instant(m.Window) - 1} {
					peek := one(start+1+after, who, charge(m, 0), charge(spacious(), 0))
					peek.Groups[0].Alone = true
					r.take(peek)
				}
			}
		}
	}
}

func (r scenarioRecorder) refund(now algorithm.Instant, who storage.Subject, charges ...algorithm.Charge) {
	s := &storage.Settlement{Now: now, Subject: who, Verb: storage.Refund, Charges: charges}
	r.Settle(context.Background(), s, new(storage.SettleOutcome))
}
