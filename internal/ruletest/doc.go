// Package ruletest runs the tests that operators write for their rules: calls at times, and what
// is to become of them.
//
// A [Fixture] is read strictly, with every mistake at its place, and run through the real engine on
// a store that is empty at the start of each test. Time is virtual: a test of a month takes as long
// as its calls.
//
// It is a package of its own because a fixture says what rules must do, and package rules what they
// are; and because it is handed its store, as everybody is but the program.
package ruletest
