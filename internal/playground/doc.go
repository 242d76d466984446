// Package playground decides the same arrivals by several limits side by side, so that people can see
// how algorithms differ before they choose. Nothing in it imitates them: each lane is a rule, compiled
// and decided by the engine as every other, on a store and a clock of its own.
package playground
