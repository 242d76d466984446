// Package sample has one mutant for each result.
package sample

// Same has a mutant that compiles to the same code.
func Same(n int) int { return n + 0 }

// Sum is tested.
func Sum(a, b int) int { return a + b }

// Within is not tested at the limit itself. It is inlined, so the tests of the mutant compile to the same program.
func Within(n, limit int) bool { return n < limit }

// Untested is called by no test.
func Untested() bool { return true }

// Countdown ends because n falls.
func Countdown(n int) (steps int) {
	for n > 0 {
		n--
		steps++
	}
	return steps
}

// Greeting adds strings, which have no difference.
func Greeting(name string) string { return "hello " + name }

// Once has a test that fails once, then passes.
func Once() bool { return true }

// Wait returns once the goroutine is done.
func Wait() {
	done := make(chan bool)
	go func() { done <- true }()
	<-done
}
