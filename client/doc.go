// Package client asks a remote Penstock over HTTP. client/grpcclient asks over gRPC; it is separate
// so that who asks over HTTP links no gRPC.
//
// A client is a [penstock.Decider] like the engine: httplimit and grpclimit work with either, and an
// application can begin with one and go on with the other.
//
// A request is never sent twice, as a call whose answer was lost may have been charged. Without an
// answer a call is allowed, or denied if the options say so; the error tells why.
package client
