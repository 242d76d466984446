// Package grpclimit limits the calls of a gRPC server: [Limit] by a [penstock.Limiter], [New] by any
// [penstock.Decider], such as an engine with rules.
//
// A call is read as the HTTP request it is: POST, the full method as the path, the metadata as the
// headers. So the same rules apply as at every other door, and what httplimit says of proxies, claims
// and certificates holds here too. A denied call ends with RESOURCE_EXHAUSTED, with the details of
// google.rpc that clients know how to wait by, and the values of the HTTP headers as metadata.
//
// It is separate from httplimit so that HTTP servers link no gRPC, and it is handed a
// [penstock.Decider]: an engine in the same process, or a client of a remote one.
package grpclimit
