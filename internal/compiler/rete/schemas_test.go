package rete

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// object is a JSON object; its keys are printed in their order.
type object = map[string]any

// described is a leaf whose grammar a schema can tell.
type described interface{ schema() object }

func (*Address) schema() object {
	return object{
		"type": "string", "pattern": "^(" + ipv4Pattern + `|\[` + ipv6Pattern() + `\]):` + portPattern + "$",
		"examples": []string{"127.0.0.1:8000", "[::1]:8000"},
	}
}

func (*Path) schema() object {
	return object{"type": "string", "pattern": "^(" + elsewhere + ")(/(" + elsewhere + "))*$", "examples": []string{"certs/ca.crt"}}
}

func (*Glob) schema() object {
	return object{
		"type": "string", "pattern": "^(" + globElement + ")(/(" + globElement + ")?)*$", "examples": []string{"teams/**/*.yaml"},
		"not": object{"pattern": fmt.Sprintf("(,[^,]*){%d}", maxCommas+1)},
	}
}

// globElement is an element of a glob that is not two dots.
const globElement = `[^/.][^/]*|\.([^/.][^/]*)?|\.\.[^/]+`

func (*ReteName) schema() object {
	const label = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
	return object{"type": "string", "pattern": "^" + label + `(\.` + label + ")*$", "maxLength": 255}
}

// Schemas are the JSON Schemas (2020-12) of the kinds, by file name: each kind
// by itself, and file.schema.json for a whole YAML file, which is what editors
// want.
func Schemas() map[string][]byte {
	collection := func(t reflect.Type) object {
		return object{"type": []string{"object", "null"}, "additionalProperties": schemaOf(t)}
	}
	kinds := map[string]object{
		"source": schemaOf(reflect.TypeFor[Source]()), "rete": schemaOf(reflect.TypeFor[Rete]()),
		"node": schemaOf(reflect.TypeFor[Node]()), "service": schemaOf(reflect.TypeFor[Service]()),
		"group": schemaOf(reflect.TypeFor[Group]()), "role": schemaOf(reflect.TypeFor[Role]()), "user": schemaOf(reflect.TypeFor[User]()),
		"file": {
			"type": []string{"object", "null"}, "additionalProperties": false,
			"properties": object{
				"source": schemaOf(reflect.TypeFor[Source]()), "rete": schemaOf(reflect.TypeFor[Rete]()),
				"nodes": collection(reflect.TypeFor[Node]()), "services": collection(reflect.TypeFor[Service]()),
				"groups": collection(reflect.TypeFor[Group]()), "roles": collection(reflect.TypeFor[Role]()),
				"users": collection(reflect.TypeFor[User]()),
			},
		},
	}
	out := map[string][]byte{}
	wholeFile(kinds["file"])
	for kind, s := range kinds {
		s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		s["title"] = kind
		b, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			panic(fmt.Sprintf("rete: a schema cannot be printed: %v", err)) // maps, lists and strings always can
		}
		out[kind+".schema.json"] = append(b, '\n')
	}
	return out
}

// schemaOf is the schema of a type, from the fields that the decoder reads.
func schemaOf(t reflect.Type) object {
	zero := reflect.New(t)
	if d, ok := zero.Interface().(described); ok {
		return d.schema()
	}
	if c, ok := closedOf(t); ok {
		return object{"enum": c.values()}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Uint32:
		return object{"type": "integer", "minimum": 1, "maximum": maxDays}
	case reflect.Struct:
		return schemaOfStruct(t)
	}
	return object{"type": "string", "minLength": 1}
}

func schemaOfStruct(t reflect.Type) object {
	fields := shapeOf(t)
	s := object{"type": "object", "additionalProperties": false}
	if len(fields) == 0 {
		s["type"] = []string{"object", "null"} // a mark needs no body
		return s
	}
	properties, required := object{}, []string{}
	for _, f := range fields {
		p := schemaOf(f.typ)
		p["description"] = f.doc
		if f.def != "" {
			p["default"] = json.RawMessage(f.def)
			if f.typ.Kind() == reflect.String {
				p["default"] = f.def
			}
		}
		properties[f.name] = p
		if f.required {
			required = append(required, f.name)
		}
	}
	s["properties"] = properties
	if len(required) > 0 {
		s["required"] = required
	}
	return stricter(t, s)
}
