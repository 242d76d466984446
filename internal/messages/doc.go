// Package messages collects the text that users can see from the source code: errors, log events, what commands print,
// the help of settings, and the console. Tests compare the list with a committed one, so that wording is reviewed in
// one place, and write reference pages from it.
package messages
