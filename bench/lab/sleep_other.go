//go:build !linux

package lab

import "time"

// Sleep sleeps as precisely as the runtime does.
func Sleep(d time.Duration) { time.Sleep(d) }
