//go:build !linux

package sdnotify

func monotonic() string { return "" }
