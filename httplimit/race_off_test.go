//go:build !race

package httplimit

const poolForgets = false
