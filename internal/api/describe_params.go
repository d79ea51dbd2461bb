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

func (d *describer) pathParams(r Route) []openapi.Parameter {
	var out []openapi.Parameter
	for _, name := range pathNames(r.Pattern) {
		s, text := pathParam(name)
		out = append(out, d.shared.Parameter(openapi.Parameter{Name: name, In: "path", Description: text, Required: true, Schema: &s}))
	}
	return out
}

// pathParam is the schema of one wildcard, and what it names.
func pathParam(name string) (s schema, text string) {
	label := nodeID
	label.Type, label.Description = "string", ""
	switch name {
	case "node":
		return label, "The id of the node."
	case "admission":
		return schema{Type: "string"}, "The id of the admission policy."
	case "profile":
		return schema{Type: "string", Enum: openapi.OneOfTexts(profiles...)}, "The name of the profile."
	case "seq":
		return schema{Type: "integer", Minimum: openapi.N(1)}, "The seq of the decision."
	case "principal":
		label.Examples = []any{"ana"}
		return label, "The id of the principal."
	case "kind", "name":
		label.Examples = nil
		return label, "The " + name + " of the artifact."
	case "key":
		return schema{Type: "string", MaxLength: openapi.N(maxKey)}, "What the value is of."
	}
	s = schema{Type: "string", Format: "uuid"}
	if name == "project" {
		return s, "The id of the project. A project exists by use."
	}
	return s, "The id of the " + name + "."
}

// params are those a route names, and the one that all take.
func (d *describer) params(r Route) []openapi.Parameter {
	all := r.Params
	if !slices.ContainsFunc(all, func(p Param) bool { return p.Name == HeaderCorrelation }) {
		all = append(slices.Clip(all), corrParam)
	}
	var out []openapi.Parameter
	for _, p := range all {
		out = append(out, d.shared.Parameter(openapi.Parameter{Name: p.Name, In: p.In, Description: p.Summary, Required: p.Required, Schema: p.Schema}))
	}
	return out
}
