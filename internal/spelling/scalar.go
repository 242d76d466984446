package spelling

import (
	"encoding/json"
	"strconv"
)

// Scalar returns a string, number or truth value of a JSON document, decoded with UseNumber, as text.
func Scalar(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}
