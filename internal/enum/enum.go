// Package enum names the values of small enumerations and reads the names back.
package enum

import "fmt"

// Name returns the name of v, or the kind and number of a value that has none.
func Name[T ~uint8](names []string, v T, kind string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

// Parse sets v to the value that text names. Values with an empty name cannot be read.
func Parse[T ~uint8](v *T, names []string, text []byte, kind string) error {
	known := ""
	for i, name := range names {
		if name == "" {
			continue
		}
		if name == string(text) {
			*v = T(i)
			return nil
		}
		if known != "" {
			known += ", "
		}
		known += name
	}
	return fmt.Errorf("unknown %s %.64q; one of %s", kind, text, known)
}
