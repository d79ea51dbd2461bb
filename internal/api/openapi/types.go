package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Hint is what a Go type cannot say of a member or a type: what it means, and
// which of its values occur. What is empty in Schema says nothing; a member without
// a description has that of its field's doc tag. A hint that has a Type or a OneOf
// takes the place of what the Go type says.
type Hint struct {
	Schema
	// Optional members may be absent, whatever their tag says: readers of
	// requests are more patient than writers of answers.
	Optional bool
	AnyJSON  bool // it may be any JSON value
}

// Types turns Go types into schemas. Structs become components that are closed:
// a member that the type lacks is a fault.
type Types struct {
	hints   map[string]Hint
	schemas map[string]*Schema
}

// NewTypes takes hints by "Type" for types and "Type.member" for their members,
// in the words of the JSON.
func NewTypes(hints map[string]Hint) *Types {
	return &Types{hints: hints, schemas: map[string]*Schema{}}
}

// Schemas are the components that were referred to.
func (t *Types) Schemas() map[string]*Schema { return t.schemas }

// Of is the schema of v's type: a reference when that is a struct.
func (t *Types) Of(v any) *Schema { return t.of(reflect.TypeOf(v)) }

var (
	typeTime = reflect.TypeFor[time.Time]()
	typeUUID = reflect.TypeFor[uuid.UUID]()
	typeRaw  = reflect.TypeFor[json.RawMessage]()
)

func (t *Types) of(typ reflect.Type) *Schema {
	switch typ {
	case typeTime:
		return &Schema{Type: "string", Format: "date-time"}
	case typeUUID:
		return &Schema{Type: "string", Format: "uuid"}
	case typeRaw:
		return &Schema{Type: "object"}
	}
	switch typ.Kind() {
	case reflect.String:
		return &Schema{Type: "string"}
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.Int:
		return &Schema{Type: "integer", Format: "int64"}
	case reflect.Uint8:
		return &Schema{Type: "integer", Minimum: N(0), Maximum: N(1<<8 - 1)}
	case reflect.Uint16:
		return &Schema{Type: "integer", Minimum: N(0), Maximum: N(1<<16 - 1)}
	case reflect.Uint32:
		return &Schema{Type: "integer", Minimum: N(0), Maximum: N(1<<32 - 1)}
	case reflect.Uint64:
		return &Schema{Type: "integer", Format: "uint64", Minimum: N(0)}
	case reflect.Float64:
		return &Schema{Type: "number"}
	case reflect.Slice:
		return &Schema{Type: "array", Items: t.of(typ.Elem())}
	case reflect.Map:
		return &Schema{Type: "object", AdditionalProperties: t.of(typ.Elem())}
	case reflect.Pointer:
		return t.of(typ.Elem())
	case reflect.Struct:
		return t.component(typ)
	}
	panic(fmt.Sprintf("openapi: no schema for %v", typ))
}

// component registers a struct, once, and refers to it.
func (t *Types) component(typ reflect.Type) *Schema {
	name := nameOf(typ)
	ref := &Schema{Ref: "#/components/schemas/" + name}
	if _, known := t.schemas[name]; known {
		return ref
	}
	s := &Schema{Type: "object", AdditionalProperties: false}
	t.schemas[name] = s // before its members, which may refer to it
	t.members(s, name, typ)
	hint := t.hints[name]
	refine(s, hint.Schema)
	return ref
}

// members are those of a struct and, as encoding/json has it, of what it embeds.
func (t *Types) members(of *Schema, owner string, typ reflect.Type) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		switch {
		case !f.Anonymous:
			t.member(of, owner, f)
		case f.Type.Kind() == reflect.Pointer:
			t.members(of, owner, f.Type.Elem())
		default:
			t.members(of, owner, f.Type)
		}
	}
}

func (t *Types) member(of *Schema, owner string, f reflect.StructField) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || !f.IsExported() {
		return
	}
	hint := t.hints[owner+"."+name]
	absent := strings.Contains(options, "omit")
	s := t.of(f.Type)
	if hint.Type != nil || hint.OneOf != nil || hint.AnyJSON {
		s = &Schema{}
	}
	s.Description = cmp.Or(f.Tag.Get("doc"), s.Description)
	refine(s, hint.Schema)
	if f.Type.Kind() == reflect.Pointer && !absent {
		s = orNull(s)
	} else {
		s = t.shared(s)
	}
	of.Properties = append(of.Properties, Property{name, s})
	if !absent && !hint.Optional {
		of.Required = append(of.Required, name)
	}
}

// shared refers to the component that a schema names, and so do its items; one that says
// something else than the component stays where it is.
func (t *Types) shared(s *Schema) *Schema {
	if s.Items != nil {
		s.Items = t.shared(s.Items)
	}
	if s.Component == "" {
		return s
	}
	was, known := t.schemas[s.Component]
	if !known {
		t.schemas[s.Component] = s
	} else if !equal(was, s) {
		return s
	}
	return &Schema{Ref: "#/components/schemas/" + s.Component}
}

func orNull(s *Schema) *Schema {
	if text, ok := s.Type.(string); ok {
		s.Type = []string{text, "null"}
		return s
	}
	out := &Schema{Description: s.Description, AnyOf: []*Schema{s, {Type: "null"}}}
	s.Description = ""
	return out
}

// refine sets in s what hint says.
func refine(s *Schema, hint Schema) {
	to, from := reflect.ValueOf(s).Elem(), reflect.ValueOf(hint)
	for i := range from.NumField() {
		if f := from.Field(i); !f.IsZero() && to.Type().Field(i).Name != "Items" {
			to.Field(i).Set(f)
		}
	}
	if hint.Items != nil && s.Items != nil {
		items := *s.Items
		refine(&items, *hint.Items)
		s.Items = &items
	} else if hint.Items != nil {
		s.Items = hint.Items
	}
}

// nameOf is a type's name; of a page or a list of T it is TPage or TItems.
func nameOf(typ reflect.Type) string {
	name, of, generic := strings.Cut(typ.Name(), "[")
	if !generic {
		return name
	}
	of = strings.TrimSuffix(of, "]")
	return of[strings.LastIndexByte(of, '.')+1:] + name
}
