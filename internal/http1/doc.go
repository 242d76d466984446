// Package http1 serves common HTTP/1.1 requests for less than net/http does, and hands everything else to net/http.
//
// A common request has no body, arrives in one piece, and is written the way nearly all clients write it: see parse.
// Any other request is handed over, with its connection and the bytes that were read, to an http.Server that serves
// the listener Rest returns; the connection stays there. So this package implements no bodies, timeouts of slow
// headers, upgrades, HTTP/1.0, HTTP/2 or TLS, and it refuses nothing by itself.
//
// What it accepts is a subset of what net/http accepts, with the same meaning, and handlers get the same requests. The
// response has the same header in the same order. The tests compare both with net/http.
//
// A Client sends such requests to a server, and does the same with responses: a Call parses the common ones, and leaves
// all others to net/http.
package http1
