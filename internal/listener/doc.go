// Package listener opens the sockets that clients connect to: TCP ports and Unix sockets, and the TLS
// certificates on them, which are read again when their files change.
package listener
