// Package pattern reads what a match asks of a path and of an attribute's value, and compares.
package pattern
