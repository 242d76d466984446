package live

// Reread reads the origin now rather than after the interval, and returns at once. It is for operators who
// request it: changes are found without it.
func (l *Rules) Reread() { l.wake.Wake() }
