// Package rawconn reads and writes connections by raw system calls, which takes less processor time than the net
// package.
package rawconn
