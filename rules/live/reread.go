package live

// Reread looks at the origin now rather than after the interval, and returns at once. It is for operators who ask for
// it: changes are found without it.
func (l *Rules) Reread() { l.wake.Wake() }
