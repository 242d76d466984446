// Package pattern parses the patterns of a match for paths and attribute values, and compares values with them.
package pattern
