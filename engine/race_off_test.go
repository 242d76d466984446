//go:build !race

package engine_test

const poolForgets = false
