// Package remote is what clients of a remote Penstock share, however they ask: what is said without
// an answer, and how a batch is split.
package remote
