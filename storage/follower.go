package storage

import "github.com/penstock-io/penstock/algorithm"

// A Follower is a store that takes over from another one while that is unavailable. It learns what the other
// store answers, and continues from there, by the other store's clock.
type Follower interface {
	// Adopt replaces what the store knows of a counter or a ban. Knowledge older than the store's own,
	// because replies arrived out of order, never loosens a limit. A store without room for it ignores it.
	Adopt(k *StateReport)

	// Forget drops what the store knew of the group's counters and ban before an instant, because another
	// node has reset them.
	Forget(g *Group, before algorithm.Instant)
}

// StateReport is what another store reported about one counter or one ban.
type StateReport struct {
	Subject Subject
	Now     algorithm.Instant // when it was true, by the other store's clock
	Given   bool              // Now was set in a ticket, and is not the time of a clock

	// Meter is the limit that the counter belongs to; nil if this is about a ban.
	//
	// For a log, State is the answer to a request that the log denied, and Cost is what that request needed.
	// It proves only that the same cost is denied until the entry at State.FreeAt has left the window. See
	// [algorithm.Meter.FillLog].
	Meter *algorithm.Meter
	State algorithm.State
	Cost  int64

	Penalty     *algorithm.Penalty
	BannedUntil algorithm.Instant // 0: not banned
}
