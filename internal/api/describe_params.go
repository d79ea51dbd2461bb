package api

import (
	"regexp"
	"slices"

	"github.com/edictdev/edict/internal/api/openapi"
)

var pathName = regexp.MustCompile(`\{(\w+)\}`)

// pathNames are the names of a pattern's wildcards.
func pathNames(pattern string) []string {
	var names []string
	for _, m := range pathName.FindAllStringSubmatch(pattern, -1) {
		names = append(names, m[1])
	}
	return names
}

func pathParams(r Route) []openapi.Parameter {
	var out []openapi.Parameter
	for _, name := range pathNames(r.Pattern) {
		s, text := schema{Type: "string", Format: "uuid"}, "The id of the "+name+"."
		if name == "node" {
			s = nodeID
			s.Type, s.Description = "string", ""
		}
		if name == "admission" {
			s, text = schema{Type: "string"}, "The id of the admission policy."
		}
		if name == "principal" {
			s, text = nodeID, "The id of the principal."
			s.Type, s.Description, s.Examples = "string", "", []any{"ana"}
		}
		if name == "kind" || name == "name" {
			s = nodeID
			s.Type, s.Description, s.Examples = "string", "", nil
			text = "The " + name + " of the artifact."
		}
		if name == "key" {
			s, text = schema{Type: "string", MaxLength: openapi.N(maxKey)}, "What the value is of."
		}
		if name == "project" {
			text = "The id of the project. A project exists by use."
		}
		out = append(out, openapi.Parameter{Name: name, In: "path", Description: text, Required: true, Schema: &s})
	}
	return out
}

// params are those a route names, and the one that all take.
func (d *describer) params(r Route) []openapi.Parameter {
	all := r.Params
	if !slices.ContainsFunc(all, func(p Param) bool { return p.Name == HeaderCorrelation }) {
		all = append(slices.Clip(all), corrParam)
	}
	var out []openapi.Parameter
	for _, p := range all {
		out = append(out, openapi.Parameter{Name: p.Name, In: p.In, Description: p.Summary, Required: p.Required, Schema: p.Schema})
	}
	return out
}
