//go:build !unix

package gateway

func connectionsForOpenFiles() int { return 0 }
