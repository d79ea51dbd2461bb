package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
)

// Describe is the OpenAPI document of every route, as /openapi.json serves it.
// It is made from Routes and the types they name, so it is right about what is
// served by construction; equal binaries describe themselves in equal bytes.
func Describe() *openapi.Document {
	return newDescriber().document()
}

func (d *describer) document() *openapi.Document {
	doc := emptyDocument()
	d.shared = openapi.NewShared(&doc.Components)
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

// emptyDocument is what does not follow from routes.
func emptyDocument() *openapi.Document {
	return &openapi.Document{
		OpenAPI: openapi.Version,
		Info: openapi.Info{
			Title: "Edict", Version: apiVersion, Summary: "An event-sourced policy plane",
			Description: "Authors publish policies and nodes; Edict admits them, compiles what each node must apply, and tells every node what changed, " +
				"signed, in order and without a gap.\n\nEvery error is a problem document (RFC 9457) with a stable `code`. A write is answered with the verdict of the fold: " +
				"whoever reads from the same worker next sees it.\n\nThe description of an operation names the relations that it asks for, where access is configured, and the codes that it " +
				"answers with beside those that are common. Every answer has the header X-Correlation-Id: what the client sent, or one made here. `type` of a problem is the path of a page that says what the code means.",
			Contact: &openapi.Contact{Name: "Edict", URL: "https://github.com/edictdev/edict"},
			License: &openapi.License{Name: "Apache 2.0", Identifier: "Apache-2.0"},
		},
		Servers:  []openapi.Server{{URL: "/", Description: "The plane this document came from"}},
		Security: []openapi.Security{{"bearer": {}}, {"certificate": {}}, {}},
		Tags:     tags(),
		Paths:    map[string]openapi.Path{},
	}
}

func tags() []openapi.Tag {
	return []openapi.Tag{
		{Name: "policies", Description: "What authors publish"},
		{Name: "revisions", Description: "What was and would be published"},
		{Name: "nodes", Description: "Whom policies are for"},
		{Name: "node", Description: "What a node reads"},
		{Name: "artifacts", Description: "What retectl signed and nodes are to hold"},
		{Name: "admission", Description: "Rego policies that judge what is asked for"},
		{Name: "admission v1alpha1", Description: "The same, as existing clients know it"},
		{Name: "access", Description: "Who may do what, and who did"},
		{Name: "projects", Description: "Whose policies and nodes they are, and how much they may have"},
		{Name: "plane", Description: "How the plane is doing"},
		{Name: "health", Description: "What supervisors ask"},
	}
}

type describer struct {
	types    *openapi.Types
	meanings map[string]meaning
	shared   openapi.Shared
}

func newDescriber() *describer {
	return &describer{types: openapi.NewTypes(hints()), meanings: meanings()}
}

func (d *describer) operation(s surface, r Route) *openapi.Operation {
	op := &openapi.Operation{
		ID: r.ID, Tags: []string{r.Tag}, Summary: r.Summary,
		Description: d.about(s, r),
		Parameters:  append(d.pathParams(r), d.params(r)...),
		Responses:   map[string]openapi.Response{},
		Needs:       r.Needs.String(),
	}
	if r.Needs == access.Anyone {
		op.Security = []openapi.Security{}
	}
	if r.Body != nil {
		op.Body = &openapi.Body{Required: true, Content: map[string]openapi.Media{r.BodyType: d.media(r.BodyType, r.Body)}}
	}
	for _, a := range r.Answers {
		d.answer(op, a)
	}
	if _, has := op.Responses[noContentKey]; !has && s.errors == nil && r.unwritten() {
		op.Responses[noContentKey] = d.shared.Response("DryRun", openapi.Response{Description: "Of a dry run"})
	}
	if same, is := op.Responses[notModified]; is {
		op.Responses[notModified] = d.shared.Response("NotModified", same)
	}
	d.faults(s, op)
	return op
}

const (
	noContentKey = "204"
	notModified  = "304"
)

// eitherOf is a body, or a part of a stream, that is of one of these types.
type eitherOf []any

// either is the schema of a body: of one type, or of one of several.
func (d *describer) either(body any) *schema {
	several, is := body.(eitherOf)
	switch {
	case !is:
		return d.types.Of(body)
	case len(several) == 1:
		return d.types.Of(several[0])
	}
	s := &schema{}
	for _, each := range several {
		s.OneOf = append(s.OneOf, d.types.Of(each))
	}
	return s
}

// media describes a body of one type. A sequence is a text whose parts have the
// schema.
func (d *describer) media(mediaType string, body any) openapi.Media {
	text := &schema{Type: "string"}
	switch mediaType {
	case mediaJSON:
		return openapi.Media{Schema: d.either(body)}
	case mediaNDJSON:
		text.Description = "A JSON object a line, of at most 64 KiB, and of a release twice the plane's largest message."
		text.ContentMediaType, text.ContentSchema = mediaJSON, d.types.Of(body)
		return openapi.Media{Schema: text}
	case mediaSSE:
		text.Description = "Server-sent events. Their data is as contentSchema has it, Last-Event-ID resumes after their id."
		text.ContentMediaType, text.ContentSchema = mediaJSON, d.either(body)
		return openapi.Media{Schema: text}
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

// headers are those of an answer, beside the one that all have.
func (d *describer) headers(names []string) map[string]openapi.Header {
	text := map[string]string{
		HeaderEventID:    "An event id, a decimal number: what stands at or below it is in the answer, and a stream opened after it misses nothing.",
		"ETag":           "Names the state's bytes, for If-None-Match; or the version of a resource, for If-Match.",
		"Location":       "The path of the new policy.",
		"Set-Cookie":     "The session's cookie, which no script reads; or its end.",
		headerWarning:    "299, edict and a text in quotation marks: what admission policies changed, or what else is to be known of an answer that is good. There may be several, or none.",
		headerAPIVersion: "The version of this contract.",
		HeaderLogSeq:     "The log sequence that the answer stands for; of a state, the version to report once it is applied.",
	}
	out := map[string]openapi.Header{}
	for _, name := range names {
		s := &schema{Type: "string"}
		switch name {
		case HeaderLogSeq:
			s = &schema{Type: "integer", Minimum: openapi.N(0)}
		case HeaderEventID:
			s = &schema{Type: "string", Pattern: "^[0-9]+$"}
		}
		out[name] = d.shared.Header(name, openapi.Header{Description: text[name], Required: name != headerWarning, Schema: s})
	}
	return out
}

// getDocument serves the document, made when it is first asked for.
func (h *healthHandlers) getDocument(c *call) error {
	b, err := h.document()
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	c.coded(http.StatusOK, mediaJSON, b)
	return nil
}
