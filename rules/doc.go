// Package rules reads the rules that an operator writes and compiles them for a node.
//
//	text  --Parse-->  Document  --Compile-->  Snapshot  --Match-->  the rules that apply to a request
//
// A Document holds the text as values, with the position of each, so that every error can be shown where it was
// made. A Snapshot is immutable: limits are compiled to meters, and conditions to an index whose cost per match
// grows with the number of matching rules and not with the number of rules.
package rules
