// Package rules is what an operator writes and what a node makes of it.
//
//	text  --Parse-->  Document  --Compile-->  Snapshot  --Match-->  the rules that apply to a call
//
// A Document is the text as values, with the place of each, so that every mistake can be shown
// where it was made. A Snapshot is immutable: limits compiled to meters, conditions to an index in
// which the cost of a match grows with the rules that match and not with the rules there are.
package rules
