// Package openapi is as much of OpenAPI 3.1 as the plane needs to describe
// itself, and the way from Go types to JSON Schema 2020-12. It knows nothing of
// routes: package api says what there is, and serves what comes of it.
package openapi

import (
	"bytes"
	"encoding/json"
)

// Version is the version of OpenAPI that documents are written in.
const Version = "3.1.1"

// Document is an OpenAPI document. Equal documents have equal bytes: maps are
// printed by their keys, lists as they are.
type Document struct {
	OpenAPI    string          `json:"openapi"`
	Info       Info            `json:"info"`
	Servers    []Server        `json:"servers,omitempty"`
	Security   []Security      `json:"security"` // empty: whoever reaches the API may use it
	Tags       []Tag           `json:"tags,omitempty"`
	Paths      map[string]Path `json:"paths"`
	Components Components      `json:"components"`
}

// Info names an API.
type Info struct {
	Title       string   `json:"title"`
	Version     string   `json:"version"`
	Summary     string   `json:"summary,omitempty"`
	Description string   `json:"description,omitempty"`
	Contact     *Contact `json:"contact,omitempty"`
	License     *License `json:"license,omitempty"`
}

// Contact is who answers questions about an API.
type Contact struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// License is named by its SPDX identifier.
type License struct {
	Name       string `json:"name"`
	Identifier string `json:"identifier"`
}

// Server is where an API is served; a relative URL is below the document's.
type Server struct {
	URL         string `json:"url"`
	Description string `json:"description,omitempty"`
}

// Security is a way to be let in: the scopes of a scheme, by its name.
type Security map[string][]string

// SecurityScheme is a way to say who asks.
type SecurityScheme struct {
	Type        string `json:"type"`
	Scheme      string `json:"scheme,omitempty"`
	Description string `json:"description"`
}

// Tag groups operations.
type Tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Path is what can be done at a path, by method in lower case.
type Path map[string]*Operation

// Operation is one method of one path. Responses are by status, or "default".
type Operation struct {
	ID          string              `json:"operationId"`
	Tags        []string            `json:"tags,omitempty"`
	Summary     string              `json:"summary"`
	Description string              `json:"description,omitempty"`
	Parameters  []Parameter         `json:"parameters,omitempty"`
	Body        *Body               `json:"requestBody,omitempty"`
	Responses   map[string]Response `json:"responses"`
	Security    []Security          `json:"security,omitzero"` // any one of them, {} stands for none; nil: as the document says
	Needs       string              `json:"x-needs"`           // relations that the operation asks of a principal
}

// Parameter is one of a path, a query or a header; with Ref it is one of the components,
// and nothing else.
type Parameter struct {
	Ref         string  `json:"$ref,omitempty"`
	Name        string  `json:"name,omitempty"`
	In          string  `json:"in,omitempty"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema,omitempty"`
}

// Body is what a request carries.
type Body struct {
	Description string           `json:"description,omitempty"`
	Required    bool             `json:"required"`
	Content     map[string]Media `json:"content"`
}

// Media is a body of one media type.
type Media struct {
	Schema *Schema `json:"schema"`
}

// Response is one status of an operation; with Ref it is one of the components, and
// nothing else.
type Response struct {
	Ref         string            `json:"$ref,omitempty"`
	Description string            `json:"description,omitempty"`
	Headers     map[string]Header `json:"headers,omitempty"`
	Content     map[string]Media  `json:"content,omitempty"`
}

// Header is a header of a response. One that is required is always there. With Ref it
// is one of the components, and nothing else.
type Header struct {
	Ref         string  `json:"$ref,omitempty"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema,omitempty"`
}

// Components are what operations refer to.
type Components struct {
	Schemas         map[string]*Schema        `json:"schemas"`
	Parameters      map[string]Parameter      `json:"parameters,omitempty"`
	Responses       map[string]Response       `json:"responses,omitempty"`
	Headers         map[string]Header         `json:"headers,omitempty"`
	SecuritySchemes map[string]SecurityScheme `json:"securitySchemes,omitempty"`
}

// Encode is the document as JSON, on one line: programs read it, and there is jq.
func (d *Document) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
