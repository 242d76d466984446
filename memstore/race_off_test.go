//go:build !race

package memstore

const poolForgets = false
