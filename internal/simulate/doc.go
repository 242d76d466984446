// Package simulate sends generated traffic through limits and compares every decision with the exact count of the
// same stream. The same engine as in a server decides, at the times of the traffic. The exact count shares no
// code with the algorithms.
package simulate
