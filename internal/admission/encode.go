package admission

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends a JSON value, as ParsePayload decodes it, in the bytes that
// encoding/json writes.
func AppendJSON(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendText(b, v), nil
	case json.Number:
		if v != "" {
			return append(b, v...), nil
		}
	case []any:
		return appendList(b, v)
	case map[string]any:
		return appendObject(b, v)
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

// appendText appends a string. What JSON or HTML would have escaped is seldom there.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // of a string, which cannot fail
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendList(b []byte, list []any) (_ []byte, err error) {
	if list == nil {
		return append(b, "null"...), nil
	}
	b = append(b, '[')
	for i, e := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = AppendJSON(b, e); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, object map[string]any) (_ []byte, err error) {
	if object == nil {
		return append(b, "null"...), nil
	}
	var few [16]string
	keys := slices.AppendSeq(few[:0], maps.Keys(object))
	slices.Sort(keys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, k), ':')
		if b, err = AppendJSON(b, object[k]); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}
