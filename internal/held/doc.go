// Package held is where requests wait that a leaky bucket delays: in order of departure, bounded in
// number and memory, and shared among rules so that none can fill it. The HTTP and gRPC limiters
// share it.
package held
