// Package doors measures what a request pays for being limited, at each place where that can be
// done: by Penstock's gateway beside other proxies and a bare one, by its decision API beside a bare
// handler, and, as a client sees it, in front of an application, beside it and inside it.
//
// Every contestant is a process of its own, so that its processor time can be read; wrk makes the
// load; nginx is the upstream, as it costs next to nothing.
package doors
