//go:build !race

package penstock_test

const poolForgets = false
