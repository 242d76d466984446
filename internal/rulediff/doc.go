// Package rulediff compares rules: what changes for clients, and what changes in the text.
//
// It is separate because the commands and the admin API share it.
package rulediff
