package memstore

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// readTicks returns the processor's time stamp counter. It does not wait for earlier instructions, as the system's
// clock does, so it may be read a fraction of a microsecond early.
func readTicks() uint64

// countsTicks reports whether the system trusts the counter for its own clock: it then runs at a constant rate, and
// is the same on all processors.
var countsTicks = sync.OnceValue(func() bool {
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && strings.TrimSpace(string(source)) == "tsc"
})

// isRealTime reports whether a reading of the clock is real. In a test with package synctest it is not.
func isRealTime(now time.Time) bool {
	var tv syscall.Timeval
	return syscall.Gettimeofday(&tv) == nil && now.Sub(time.Unix(tv.Unix())).Abs() < time.Hour
}
