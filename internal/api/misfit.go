package api

import (
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// misfit says what is wanted in place of a value, in the words of JSON.
func misfit(e *json.SemanticError) string {
	want, found := wantedAs(e.GoType), foundAs(e.JSONKind)
	if want == found || found == aString && strings.HasPrefix(want, aTime) {
		found = strings.Replace(found, "a ", "another ", 1)
	}
	return "want " + want + ", found " + found
}

const (
	aString = "a string"
	aTime   = "a time such as 2026-11-20T12:00:00Z"
)

func wantedAs(t reflect.Type) string {
	if t == nil {
		return "another value"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() {
		return aTime
	}
	switch t.Kind() {
	case reflect.String:
		return aString
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

func foundAs(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "true or false"
	case jsontext.KindString:
		return aString
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginArray:
		return "an array"
	}
	return "an object"
}
