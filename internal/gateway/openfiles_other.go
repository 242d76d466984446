//go:build !unix

package gateway

func openFiles() uint64 { return 0 }
