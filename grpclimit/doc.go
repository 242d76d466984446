// Package grpclimit limits the requests to a gRPC server: [Limit] by a [penstock.Limiter], [New] by any
// [penstock.Decider], such as an engine with rules.
//
// A gRPC request is read as the HTTP request it is: POST, the full method as the path, the metadata as the
// headers. So the same rules apply as in every other API, and what httplimit says of proxies, claims and
// certificates holds here too. A denied request ends with RESOURCE_EXHAUSTED, with the google.rpc details
// that clients use for waiting, and the values of the HTTP headers as metadata.
//
// It is separate from httplimit so that HTTP servers do not link gRPC. It takes a [penstock.Decider]: an
// engine in the same process, or a client of a remote one.
package grpclimit
