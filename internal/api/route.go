package api

import (
	"net/http"
	"slices"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Param is a parameter of a route beside its path: of the query, or a header.
type Param struct {
	Name     string
	In       string // query or header
	Summary  string
	Required bool
	Schema   *openapi.Schema
}

// Answer is one answer of a route that is not a problem. Body is a zero value
// of its type, or of the parts of a stream; nil when there is none or it is no
// JSON. Headers are those it always has beside the correlation id, and a Warning
// where there may be one.
type Answer struct {
	Status    int
	MediaType string
	Body      any
	Headers   []string
}

// Route is one operation of the API: enough to serve it and to describe it.
// Problems are the codes it may answer with beside those that follow from its
// form (its path, its parameters), that every route may (bad_header,
// unknown_parameter, internal)
// and that are the router's (404 and 405).
type Route struct {
	Method, Pattern string
	ID, Tag         string
	Summary         string
	Needs           access.Need // of who asks; one that says nothing is denied to all
	Params          []Param
	BodyType        string // media type of the request's body, empty: none
	Body            any    // a zero value of its type
	Lenient         bool   // members of the body that are not described are taken and not read
	Answers         []Answer
	Problems        []string

	// early routes answer before the fold has passed what the log held when the
	// worker started: what they say is not of the read model, or says how far that is.
	early bool
	// foreign routes are asked by who adds parameters of their own, which are not read.
	foreign bool
	// byRelations streams show what the relations allow that whoever asks had when the
	// stream began: it ends when those change.
	byRelations bool

	serve func(c *call) error
}

// Admin reports whether the route is an operator's: it reads or changes the
// plane itself.
func (r Route) Admin() bool { return r.Needs == access.ReadPlane || r.Needs == access.AdminPlane }

// authored reports whether the route is of admission policies, whose authors are
// operators, tenants and users alike: it is at both addresses.
func (r Route) authored() bool {
	return r.Needs == access.SeeAdmission || r.Needs == access.AuthorAdmission
}

// streams reports whether an answer lasts as long as its client likes.
func (r Route) streams() bool {
	return slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.MediaType == mediaSSE })
}

// writes reports whether the route appends to the log.
func (r Route) writes() bool { return slices.Contains(r.Problems, CodeStorageLow) }

const (
	mediaJSON   = "application/json"
	mediaNDJSON = "application/x-ndjson"
	mediaSSE    = "text/event-stream"
	mediaText   = "text/plain; charset=utf-8"
)

// Routes is every route of the API. The slice is the caller's.
func Routes() []Route {
	var all []Route
	for _, s := range new(handlers).surfaces() {
		all = append(all, s.routes...)
	}
	return all
}

func jsonAnswer(status int, body any, headers ...string) []Answer {
	return []Answer{{Status: status, MediaType: mediaJSON, Body: body, Headers: headers}}
}

// cachedAnswer is 304 to whoever has the body already.
func cachedAnswer(body any, headers ...string) []Answer {
	return append(jsonAnswer(http.StatusOK, body, headers...), Answer{Status: http.StatusNotModified, Headers: headers})
}

// createdAnswer says where the new thing is; 200 is of a dry run.
func createdAnswer(body any, headers ...string) []Answer {
	return append(jsonAnswer(http.StatusCreated, body, append(headers, "Location")...), jsonAnswer(http.StatusOK, body, headers...)...)
}

func noContent() []Answer { return []Answer{{Status: http.StatusNoContent}} }

var (
	limitParam = Param{
		Name: "limit", In: "query", Summary: "Items a page; more than 200 are 200.",
		Schema: &openapi.Schema{Type: "integer", Minimum: openapi.N(1), Default: defaultLimit},
	}
	cursorParam = queryText("cursor", "next_cursor of the page before.")
	minSeqParam = querySeq("min_seq", "Answer once the fold has passed this log sequence; the log's head when absent.")
	keyParam    = headerText(HeaderIdempotency, "Makes a retry the same write: one of this principal, project, operation and target. With another body it is refused.")
	whoParam    = headerText(HeaderPrincipal, "Who writes; anonymous when absent. Where access is configured the principal is known, and this is ignored.")
	corrParam   = headerText(HeaderCorrelation, "Echoed in answers, and kept with a revision.")
)

func queryText(name, summary string) Param {
	return Param{Name: name, In: "query", Summary: summary, Schema: &openapi.Schema{Type: "string"}}
}

// headerTag is a header with an ETag, or another text of any form.
func headerTag(name, summary string) Param {
	return Param{Name: name, In: "header", Summary: summary, Schema: &openapi.Schema{Type: "string"}}
}

// headerText is a header that must be short and printable.
func headerText(name, summary string) Param {
	return Param{
		Name: name, In: "header", Summary: summary,
		Schema: &openapi.Schema{Type: "string", Pattern: "^[ -~]*$", MaxLength: openapi.N(policy.MaxCreatedBy)},
	}
}

// queryFlag is on when it is there without a value, too.
func queryFlag(name, summary string) Param {
	return Param{Name: name, In: "query", Summary: summary, Schema: &openapi.Schema{Type: "boolean"}}
}

func querySeq(name, summary string) Param {
	return Param{
		Name: name, In: "query", Summary: summary,
		Schema: &openapi.Schema{Type: "integer", Format: "uint64", Minimum: openapi.N(0)},
	}
}

func queryUUID(name, summary string) Param {
	return Param{Name: name, In: "query", Summary: summary, Required: true, Schema: &openapi.Schema{Type: "string", Format: "uuid"}}
}

// writeParams are those of every write, which may be a dry run.
func writeParams(more ...Param) []Param {
	return append(more, dryRunParam, keyParam, whoParam, corrParam)
}

// writeProblems are the codes any write may answer with.
func writeProblems(more ...string) []string {
	return append(more, CodeProjectionBehind, CodeLogUnavailable, CodeStorageLow)
}

// linesProblems are the codes of a write of a JSON line each.
func linesProblems() []string {
	return projectProblems(CodeUnsupportedMedia, CodeBodyTooLarge, policy.CodeMalformedJSON, CodeTooManyRejections)
}

// projectProblems are those of a write that makes a project's part of the log
// longer, and takes nothing away.
func projectProblems(more ...string) []string {
	return writeProblems(append(more, CodeProjectOverShare, projector.CodeQuotaExceeded, projector.CodeProjectArchived)...)
}

// bodyProblems are the codes any route with a body may answer with.
func bodyProblems(more ...string) []string {
	return append(more, policy.CodeMalformedJSON, policy.CodeDuplicateKey, policy.CodeUnknownField, policy.CodeWrongType,
		CodeBodyTooLarge, CodeUnsupportedMedia)
}

// readProblems are the codes of a read that waits for the log's head before it
// says that something is not there.
func readProblems(more ...string) []string {
	return append(more, CodeProjectionBehind, CodeLogUnavailable)
}
