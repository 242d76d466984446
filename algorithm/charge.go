package algorithm

// A Charge is a limit and a cost. A cost of 0 is a peek: it reads and never writes.
type Charge struct {
	Meter *Meter
	Cost  int64

	// Overdraw marks a cost that must be recorded because it was known too late. It passes if any capacity is
	// left, and may drive the balance below zero as far as the limit's Overdraft; the rest is forgiven.
	Overdraw bool
}

// Need returns the least free capacity with which the charge passes.
func (c *Charge) Need() int64 {
	if c.Overdraw {
		return min(c.Cost, 1)
	}
	return c.Cost
}

// TakesPermit reports whether the charge takes a permit of a concurrency limit. Every running request holds
// one of its own, duplicates included.
func (c *Charge) TakesPermit() bool { return c.Meter.Kind == KindLeases && c.Cost > 0 }

// CannotWait reports whether a leaky bucket has room for the charge and denies it only because the client
// cannot wait for its turn.
func (c *Charge) CannotWait(d *Decision) bool {
	return c.Meter.Kind == KindLeaky && !d.Allowed && c.Cost <= d.Remaining && d.RetryAfter != Never
}

// Correct tells a client that cannot wait that nothing is left: what is left is not available to it now.
func (c *Charge) Correct(d *Decision) {
	if c.CannotWait(d) {
		d.Remaining = 0
	}
}
