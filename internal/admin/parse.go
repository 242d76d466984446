package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/penstock-io/penstock/internal/wire"
)

// parse reads a JSON object field by field, so that one error does not hide the next.
func parse(body []byte, into any) error {
	if !utf8.Valid(body) {
		return invalid("the body must be JSON in UTF-8, has bytes that are not")
	}
	fields := fieldsOf(reflect.ValueOf(into).Elem())
	known := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
	var mistakes wire.FieldErrors
	err := eachMember(body, func(name string, value json.RawMessage, again bool) bool {
		field, ok := fields[name]
		var message string
		switch {
		case !ok:
			message = "unknown field; known fields: " + known
		case again:
			message = "is there twice"
		default:
			message = readField(field, value)
		}
		if message != "" {
			mistakes.Add(fmt.Sprintf("%.64s", name), "%s", message)
		}
		return len(mistakes.List) < wire.MaxMistakes
	})
	if err != nil {
		return invalid("the body must be a JSON object: %v", err)
	}
	return mistakes.Err()
}

// eachMember calls visit for every member of a JSON object, until visit returns false.
func eachMember(text []byte, visit func(name string, value json.RawMessage, again bool) bool) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("got %.32q", text)
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if !visit(name.(string), value, seen[name.(string)]) {
			return nil
		}
		seen[name.(string)] = true
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows it")
	}
	return nil
}

// fieldsOf returns the fields of a struct and of its embedded structs, by JSON name.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous {
			maps.Copy(fields, fieldsOf(v.Field(i)))
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = v.Field(i)
	}
	return fields
}

// readField decodes a value into a field. It returns what is wrong with the value, or "".
func readField(field reflect.Value, value json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	err := d.Decode(field.Addr().Interface())
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("must be %s, is a %s", kindOf(field.Type()), wrong.Value)
	}
	if err != nil {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	return ""
}

// kindOf returns the JSON name of a type.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Map:
		return "an object of " + strings.TrimPrefix(strings.TrimPrefix(kindOf(t.Elem()), "a "), "an ") + "s"
	case reflect.Struct:
		return "an object"
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
