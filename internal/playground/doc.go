// Package playground decides the same arrivals by several limits side by side, to show how algorithms differ. It does
// not imitate them: each lane is a rule that the engine compiles and decides like any other, with its own store and
// clock.
package playground
