package jwtclaims

import "github.com/penstock-io/penstock/internal/spelling"

// claims are those of a verified token.
type claims map[string]any

// Claim returns a string, number or truth value as text. A claim that is called a.b goes before b
// within a: names of claims are often addresses.
func (c claims) Claim(name string) (string, bool) { return find(c, name) }

func find(within map[string]any, name string) (string, bool) {
	if value, ok := within[name]; ok {
		return spelling.Scalar(value)
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, ok := within[name[:i]].(map[string]any); ok {
			if value, ok := find(inner, name[i+1:]); ok {
				return value, true
			}
		}
	}
	return "", false
}
