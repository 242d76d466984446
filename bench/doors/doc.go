// Package doors measures what limiting costs a request at each place where it can be done: in Penstock's gateway
// compared with other proxies and a bare one, in its decision API compared with a bare handler, and, as a client
// sees it, in front of an application, beside it and inside it.
//
// Every contestant runs in its own process, so that its processor time can be read. wrk generates the load. nginx
// is the upstream, because it costs next to nothing.
package doors
