package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Example is a good answer to a request, made from its schema: every member is
// there, and every list has an item. It is the first documented status below
// 300, with all its headers. op is the id of the operation that answers.
func (c *Contract) Example(r *http.Request) (op string, res *http.Response, body []byte, err error) {
	o, _ := c.find(r)
	if o == nil {
		return "", nil, nil, fmt.Errorf("no operation for %s %s", r.Method, r.URL)
	}
	for status := 200; status < 300; status++ {
		want, ok := o.Responses[fmt.Sprint(status)]
		if !ok {
			continue
		}
		res = &http.Response{StatusCode: status, Header: http.Header{correlation: {"7"}}}
		for name := range want.Headers {
			res.Header.Set(name, "7")
		}
		at := o.pointer + pointer("responses", fmt.Sprint(status), "content")
		for _, mediaType := range []string{"application/json", "text/event-stream", "application/x-ndjson", "text/plain", "application/octet-stream"} {
			if _, ok := want.Content[mediaType]; !ok {
				continue
			}
			res.Header.Set("Content-Type", mediaType)
			v := c.example(c.at(at + pointer(mediaType, "schema")))
			if mediaType != "application/json" {
				return o.ID, res, nil, nil
			}
			body, err = json.Marshal(v)
			return o.ID, res, body, err
		}
		return o.ID, res, nil, nil
	}
	return o.ID, nil, nil, fmt.Errorf("operation %s has no good answer", o.ID)
}

// at is the value of the document at a pointer.
func (c *Contract) at(p string) map[string]any {
	v := c.raw
	for part := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		v = v.(map[string]any)[part]
	}
	return v.(map[string]any)
}

// example is a value that a schema takes, as full as it goes.
func (c *Contract) example(s map[string]any) any {
	if ref, ok := s["$ref"].(string); ok {
		return c.example(c.at(strings.TrimPrefix(ref, "#")))
	}
	for _, of := range []string{"anyOf", "oneOf"} {
		if list, ok := s[of].([]any); ok {
			return c.example(list[0].(map[string]any))
		}
	}
	if list, ok := s["examples"].([]any); ok {
		return list[0]
	}
	if list, ok := s["enum"].([]any); ok {
		return list[0]
	}
	switch kind(s["type"]) {
	case "object":
		out := map[string]any{}
		members, _ := s["properties"].(map[string]any)
		for name, m := range members {
			out[name] = c.example(m.(map[string]any))
		}
		return out
	case "array":
		return []any{c.example(s["items"].(map[string]any))}
	case "integer":
		return 7
	case "number":
		return 0.5
	case "boolean":
		return true
	}
	switch s["format"] {
	case "uuid":
		return "01900000-0000-7000-8000-000000000001"
	case "date-time":
		return "2026-11-20T12:00:00.5Z"
	}
	if p, _ := s["pattern"].(string); p == "^[0-9a-f]{64}$" {
		return strings.Repeat("0123456789abcdef", 4)
	}
	return "text"
}

// kind is a schema's type, the first when it has several.
func kind(v any) string {
	if list, ok := v.([]any); ok {
		v = list[0]
	}
	s, _ := v.(string)
	return s
}
