package rules

func newIndex(all []Rule, allow, deny []listEntry) *index {
	return buildIndex(all, allow, deny, func(int) bool { return true })
}
