package rules

// Conditions are what a rule's or an override's match asks of a call, checked and ready to be
// indexed. All must hold; the zero value holds for every call.
type conditions struct {
	domain     string   // never empty
	methods    []string // upper case; none: any
	path       string   // the pattern as written, valid; "": any
	attributes []attributeCondition
	when       *expression // nil: none
}

// An attributeCondition holds if the attribute is there and any of the patterns fits its value.
type attributeCondition struct {
	name     string
	patterns []valuePattern
}
