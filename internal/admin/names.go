package admin

import (
	"reflect"
	"sync"
)

// Everything in a response that names a client has one of these types, and nothing else has.
var (
	attributesType = reflect.TypeFor[Attributes]()
	detailType     = reflect.TypeFor[Detail]()
)

// eachName visits all values in a response that name a client, and returns the response. The values are settable.
// Everything the response refers to was made for it, so it may be changed.
func eachName(answer any, visit func(reflect.Value)) any {
	if answer == nil {
		return nil
	}
	at := reflect.New(reflect.TypeOf(answer)).Elem()
	at.Set(reflect.ValueOf(answer))
	visitNames(at, visit)
	return at.Interface()
}

func visitNames(at reflect.Value, visit func(reflect.Value)) {
	if !mayName(at.Type()) { // saves visiting every point of every series
		return
	}
	if t := at.Type(); t == attributesType || t == detailType {
		visit(at)
		return
	}
	switch at.Kind() {
	case reflect.Pointer:
		if !at.IsNil() {
			visitNames(at.Elem(), visit)
		}
	case reflect.Interface:
		if !at.IsNil() {
			at.Set(reflect.ValueOf(eachName(at.Interface(), visit)))
		}
	case reflect.Struct:
		for i := range at.NumField() {
			if f := at.Type().Field(i); f.IsExported() || f.Anonymous {
				visitNames(at.Field(i), visit)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range at.Len() {
			visitNames(at.Index(i), visit)
		}
	case reflect.Map:
		visitValues(at, visit)
	}
}

// visitValues visits the values of a map. It visits copies, since map values are not settable.
func visitValues(at reflect.Value, visit func(reflect.Value)) {
	for _, key := range at.MapKeys() {
		value := reflect.New(at.Type().Elem()).Elem()
		value.Set(at.MapIndex(key))
		visitNames(value, visit)
		at.SetMapIndex(key, value)
	}
}

var naming sync.Map // by type: whether it can name clients

// mayName reports whether a value of a type can contain the name of a client. For an interface it has to assume so.
func mayName(t reflect.Type) bool {
	if known, ok := naming.Load(t); ok {
		return known.(bool)
	}
	found := leadsToNames(t, map[reflect.Type]bool{})
	naming.Store(t, found)
	return found
}

func leadsToNames(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == attributesType || t == detailType || t.Kind() == reflect.Interface {
		return true
	}
	if seen[t] {
		return false // the outer call that is still checking the type decides
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return leadsToNames(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && leadsToNames(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
