// Package listener opens the sockets that clients connect to: TCP ports and Unix sockets. It also loads their TLS
// certificates, and reloads them when the files change.
package listener
