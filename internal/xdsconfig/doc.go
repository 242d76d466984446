// Package xdsconfig gets the configuration of envoyproxy/ratelimit from a management server over xDS (state of the
// world, ADS), as that service does with CONFIG_TYPE=GRPC_XDS_SOTW. Envoy Gateway is such a server.
//
// A [Source] is an origin of rules: it converts what the server pushes to files of envoyproxy/ratelimit, which are
// read, checked and served like files on disk. It tells the server whether its configuration is served (ACK) or why
// it is refused (NACK).
package xdsconfig
