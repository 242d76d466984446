//go:build unix && !linux

package memstore

func adviseHuge([]byte) {}
