package openapi

import (
	"bytes"
	"encoding/json"
)

// Schema is a JSON Schema (2020-12), its fields in the order people read them.
type Schema struct {
	Ref         string `json:"$ref,omitempty"`
	Description string `json:"description,omitempty"`
	Type        any    `json:"type,omitempty"` // a string, or a list of them
	Format      string `json:"format,omitempty"`
	Const       any    `json:"const,omitempty"`
	Enum        []any  `json:"enum,omitempty"`
	Pattern     string `json:"pattern,omitempty"`
	MinLength   *int   `json:"minLength,omitempty"`
	MaxLength   *int   `json:"maxLength,omitempty"`
	Minimum     *int   `json:"minimum,omitempty"`
	Maximum     *int   `json:"maximum,omitempty"`
	Default     any    `json:"default,omitempty"`

	Items    *Schema `json:"items,omitempty"`
	MinItems *int    `json:"minItems,omitempty"`
	MaxItems *int    `json:"maxItems,omitempty"`

	Properties           Properties `json:"properties,omitempty"`
	Required             []string   `json:"required,omitempty"`
	PropertyNames        *Schema    `json:"propertyNames,omitempty"`
	AdditionalProperties any        `json:"additionalProperties,omitempty"` // whether there may be others, or a *Schema
	MaxProperties        *int       `json:"maxProperties,omitempty"`

	AllOf []*Schema `json:"allOf,omitempty"`
	AnyOf []*Schema `json:"anyOf,omitempty"`
	OneOf []*Schema `json:"oneOf,omitempty"`
	Not   *Schema   `json:"not,omitempty"`
	If    *Schema   `json:"if,omitempty"`
	Then  *Schema   `json:"then,omitempty"`
	Else  *Schema   `json:"else,omitempty"`

	// ContentSchema is that of each part of a text that is a sequence: of each line of
	// NDJSON, of each event's data of SSE. OpenAPI 3.1 has no word of its own for it.
	ContentMediaType string  `json:"contentMediaType,omitempty"`
	ContentSchema    *Schema `json:"contentSchema,omitempty"`

	Examples []any `json:"examples,omitempty"`

	// Component is the name under which members that are the same share this schema.
	Component string `json:"-"`
}

// N is a limit.
func N(n int) *int { return &n }

// OneOfTexts is a closed set of strings.
func OneOfTexts[T ~string](texts ...T) []any {
	all := make([]any, len(texts))
	for i, t := range texts {
		all[i] = string(t)
	}
	return all
}

// Property is a member of an object.
type Property struct {
	Name   string
	Schema *Schema
}

// Properties are the members of an object, in the order its type has them.
type Properties []Property

// MarshalJSON prints an object.
func (p Properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(x.Name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(x.Schema); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
