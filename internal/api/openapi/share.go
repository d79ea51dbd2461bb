package openapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// Shared gathers what many operations have alike, so that each of them refers to it.
type Shared struct{ in *Components }

// NewShared gathers into components.
func NewShared(in *Components) Shared {
	in.Parameters, in.Responses, in.Headers = map[string]Parameter{}, map[string]Response{}, map[string]Header{}
	return Shared{in}
}

// Parameter refers to a parameter.
func (s Shared) Parameter(p Parameter) Parameter {
	return Parameter{Ref: "#/components/parameters/" + put(s.in.Parameters, camel(p.Name), p)}
}

// Header refers to a header.
func (s Shared) Header(name string, h Header) Header {
	return Header{Ref: "#/components/headers/" + put(s.in.Headers, camel(name), h)}
}

// Response refers to a response.
func (s Shared) Response(name string, r Response) Response {
	return Response{Ref: "#/components/responses/" + put(s.in.Responses, name, r)}
}

// put keeps v under a name that no other value has, and returns it.
func put[T any](in map[string]T, name string, v T) string {
	for n, key := 2, name; ; n++ {
		was, used := in[key]
		if !used {
			in[key] = v
			return key
		}
		if equal(was, v) {
			return key
		}
		key = fmt.Sprint(name, n)
	}
}

func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// camel is a name of HTTP as one word, such as XCorrelationId or MinSeq.
func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' }) {
		b.WriteRune(unicode.ToUpper(rune(word[0])))
		b.WriteString(word[1:])
	}
	return b.String()
}
