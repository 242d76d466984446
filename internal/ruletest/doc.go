// Package ruletest runs the tests that operators write for their rules: requests at given times, and the expected
// verdicts.
//
// A [Fixture] is read strictly, with every error at its position, and run through the real engine on a store that is
// empty at the start of each test. Time is virtual: a test of a month takes no longer than its requests.
//
// It is a separate package because fixtures are not part of the rules document. The caller passes the store.
package ruletest
