// Package remote is what clients of a remote Penstock share: the verdict without an answer, and how a batch
// is split.
package remote
