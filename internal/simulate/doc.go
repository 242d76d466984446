// Package simulate sends generated traffic through limits and compares every decision with the exact count
// of the same stream. The engine that serves decides, at the times of the traffic; the exact count shares
// no code with the algorithms.
package simulate
