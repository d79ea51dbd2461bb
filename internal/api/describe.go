package api

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

const mediaProblem = "application/problem+json"

// Describe is the OpenAPI document of every route, as /openapi.json serves it.
// It is made from Routes and the types they name, so it is right about what is
// served by construction; equal binaries describe themselves in equal bytes.
func Describe() *openapi.Document {
	return (&describer{openapi.NewTypes(hints()), meanings()}).document()
}

func (d *describer) document() *openapi.Document {
	doc := &openapi.Document{
		OpenAPI: openapi.Version,
		Info: openapi.Info{
			Title: "Edict", Version: apiVersion, Summary: "An event-sourced policy plane",
			Description: "Authors publish policies and nodes; Edict admits them, compiles what each node must apply, and tells every node what changed, " +
				"signed, in order and without a gap.\n\nEvery error is a problem document (RFC 9457) with a stable `code`. A write is answered with the verdict of the fold: " +
				"whoever reads from the same worker next sees it.",
			License: &openapi.License{Name: "Apache 2.0", Identifier: "Apache-2.0"},
		},
		Servers:  []openapi.Server{{URL: "/", Description: "The plane this document came from"}},
		Security: []openapi.Security{},
		Tags: []openapi.Tag{
			{Name: "policies", Description: "What authors publish"},
			{Name: "revisions", Description: "What was and would be published"},
			{Name: "nodes", Description: "Whom policies are for"},
			{Name: "node", Description: "What a node reads"},
			{Name: "artifacts", Description: "What retectl signed and nodes are to hold"},
			{Name: "admission", Description: "Rego policies that judge what is asked for"},
			{Name: "admission v1alpha1", Description: "The same, as existing clients know it"},
			{Name: "access", Description: "Who may do what, and who did"},
			{Name: "plane", Description: "How the plane is doing"},
			{Name: "health", Description: "What supervisors ask"},
		},
		Paths: map[string]openapi.Path{},
	}
	for _, s := range new(handlers).surfaces() {
		for _, r := range s.routes {
			if doc.Paths[r.Pattern] == nil {
				doc.Paths[r.Pattern] = openapi.Path{}
			}
			doc.Paths[r.Pattern][strings.ToLower(r.Method)] = d.operation(s, r)
		}
	}
	d.types.Of(resource.PolicyUpdated{}) // payloads of events, which no Go type refers to
	d.types.Of(resource.NodeStateUpdated{})
	d.types.Of(resource.KeyRotated{})
	d.types.Of(resource.LegacyKeyRotated{})
	d.types.Of(resource.ArtifactUpdated{})
	doc.Components.Schemas = d.types.Schemas()
	doc.Components.SecuritySchemes = map[string]openapi.SecurityScheme{
		"bearer":      {Type: "http", Scheme: "bearer", Description: "A token of the plane, or an issuer's identity token."},
		"certificate": {Type: "mutualTLS", Description: "A client certificate with a SPIFFE ID."},
	}
	return doc
}

type describer struct {
	types    *openapi.Types
	meanings map[string]meaning
}

func (d *describer) operation(s surface, r Route) *openapi.Operation {
	op := &openapi.Operation{
		ID: r.ID, Tags: []string{r.Tag}, Summary: r.Summary,
		Parameters: append(pathParams(r), d.params(r)...),
		Responses:  map[string]openapi.Response{},
		Needs:      r.Needs.String(),
	}
	if r.Needs != access.Anyone {
		op.Security = []openapi.Security{{"bearer": {}}, {"certificate": {}}, {}}
	}
	if r.Body != nil {
		op.Body = &openapi.Body{Required: true, Content: map[string]openapi.Media{r.BodyType: d.media(r.BodyType, r.Body)}}
	}
	for _, a := range r.Answers {
		d.answer(op, a)
	}
	if s.errors != nil {
		d.alphaFaults(op, r)
		return op
	}
	for status, codes := range d.problems(r) {
		op.Responses[strconv.Itoa(status)] = d.problem(status, codes)
	}
	return op
}

// eitherOf is the body of a stream whose parts are of one of these types.
type eitherOf []any

// media describes a body of one type. A sequence is a text whose parts have the
// schema.
func (d *describer) media(mediaType string, body any) openapi.Media {
	text := &schema{Type: "string"}
	switch mediaType {
	case mediaJSON:
		return openapi.Media{Schema: d.types.Of(body)}
	case mediaNDJSON:
		text.Description = "A JSON object a line, as x-item-schema has it; a line is at most 64 KiB, that of a release twice the largest message of the plane."
		return openapi.Media{Schema: text, Item: d.types.Of(body)}
	case mediaSSE:
		text.Description = "Server-sent events. The data of each is as x-item-schema has it, its id is what Last-Event-ID resumes after."
		item := &schema{}
		for _, each := range body.(eitherOf) {
			item.OneOf = append(item.OneOf, d.types.Of(each))
		}
		return openapi.Media{Schema: text, Item: item}
	}
	return openapi.Media{Schema: text}
}

// answer adds a good answer; one status may come in several media types.
func (d *describer) answer(op *openapi.Operation, a Answer) {
	key := strconv.Itoa(a.Status)
	res, known := op.Responses[key]
	if !known {
		res = openapi.Response{Description: http.StatusText(a.Status), Headers: d.headers(a.Headers)}
	}
	if a.MediaType != "" {
		if res.Content == nil {
			res.Content = map[string]openapi.Media{}
		}
		media, _, _ := strings.Cut(a.MediaType, ";")
		res.Content[media] = d.media(media, a.Body)
	}
	op.Responses[key] = res
}

// headers are those of an answer, and the one that all have.
func (d *describer) headers(names []string) map[string]openapi.Header {
	text := map[string]string{
		HeaderCorrelation: "Names the request: what the client sent, or one made here.",
		HeaderEventID:     "An event id, a decimal number: what stands at or below it is in the answer, and a stream opened after it misses nothing.",
		"ETag":            "Names the state's bytes, for If-None-Match; or a policy's version, for If-Match.",
		"Location":        "The path of the new policy.",
		"Retry-After":     "Seconds to wait before trying again.",
		headerAPIVersion:  "The version of this contract.",
		HeaderLogSeq:      "The log sequence that the answer stands for; of a state, the version to report once it is applied.",
	}
	out := map[string]openapi.Header{}
	for _, name := range append([]string{HeaderCorrelation}, names...) {
		s := &schema{Type: "string"}
		switch name {
		case HeaderLogSeq, "Retry-After":
			s = &schema{Type: "integer", Minimum: openapi.N(0)}
		case HeaderEventID:
			s = &schema{Type: "string", Pattern: "^[0-9]+$"}
		}
		out[name] = openapi.Header{Description: text[name], Required: true, Schema: s}
	}
	return out
}

// problems are the codes a route may answer with, by status: those it names
// and those that follow from its form.
func (d *describer) problems(r Route) map[int][]string {
	codes := append([]string{CodeBadHeader, CodeInternal}, r.Problems...)
	codes = append(codes, accessProblems(r)...)
	for _, name := range pathNames(r.Pattern) {
		switch name {
		case "node":
			codes = append(codes, policy.CodeInvalidNodeID)
		case "principal":
			codes = append(codes, policy.CodeInvalidPrincipalID)
		case "admission", "key":
		case "kind", "name":
			codes = append(codes, policy.CodeInvalidArtifactName)
		default:
			codes = append(codes, policy.CodeInvalidUUID)
		}
	}
	for _, p := range r.Params {
		if p.Schema.Type == "integer" || p.Schema.Type == "boolean" {
			codes = append(codes, CodeBadParameter)
		}
	}
	by := map[int][]string{}
	for _, code := range codes {
		m, known := d.meanings[code]
		if !known {
			panic(fmt.Sprintf("api: code %q of route %s has no meaning", code, r.ID))
		}
		if !slices.Contains(by[m.status], code) {
			by[m.status] = append(by[m.status], code)
		}
	}
	for _, codes := range by {
		slices.Sort(codes)
	}
	return by
}

func (d *describer) problem(status int, codes []string) openapi.Response {
	var headers []string
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		headers = append(headers, "Retry-After")
	}
	var b strings.Builder
	b.WriteString(http.StatusText(status))
	for _, code := range codes {
		fmt.Fprintf(&b, "\n- `%s`: %s", code, d.meanings[code].text)
	}
	return openapi.Response{
		Description: b.String(), Headers: d.headers(headers),
		Content: map[string]openapi.Media{mediaProblem: {Schema: &schema{AllOf: []*schema{
			d.types.Of(resource.Problem{}),
			{Properties: openapi.Properties{
				{Name: "status", Schema: &schema{Const: status}},
				{Name: "code", Schema: &schema{Enum: openapi.OneOfTexts(codes...)}},
			}},
		}}}},
	}
}

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

// getDocument serves the document, made when it is first asked for.
func (h *healthHandlers) getDocument(c *call) error {
	b, err := h.document()
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	c.bytes(http.StatusOK, mediaJSON, b)
	return nil
}
