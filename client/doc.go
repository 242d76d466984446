// Package client asks a remote Penstock over HTTP. Package client/grpcclient asks over gRPC; it is separate
// so that programs that use HTTP do not link gRPC.
//
// A client is a [penstock.Decider] like the engine: httplimit and grpclimit work with either, and an
// application can switch from one to the other. A client does not know the rules, so
// middleware with a client sends ip, method, host and path. Name everything else that the rules read in
// ReaderOptions.Sources: otherwise a rule that counts by a header matches no request.
//
// A client never sends a request twice, because a request whose reply was lost may have been charged. Without
// a reply a request is allowed, or denied if the options say so; the error says why.
package client
