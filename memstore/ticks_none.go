//go:build !(linux && amd64)

package memstore

import "time"

func readTicks() uint64 { return 0 }

func countsTicks() bool { return false }

func isRealTime(time.Time) bool { return true }
