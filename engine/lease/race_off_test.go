//go:build !race

package lease

const poolForgets = false
