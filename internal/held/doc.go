// Package held is the queue of requests that a leaky bucket delays: in order of departure, bounded in number
// and memory, and shared among rules so that no rule can fill it. The HTTP and gRPC limiters share it.
package held
