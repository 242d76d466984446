//go:build !linux

package race

import "time"

// An alarm sleeps as exactly as the runtime's timers do on this system.
type alarm struct{}

func newAlarm() alarm { return alarm{} }

func (alarm) waitUntil(due time.Time) { time.Sleep(time.Until(due)) }

func (alarm) close() {}
