package api

import "net/http"

// Param is a parameter of a route beside its path: of the query, or a header.
type Param struct {
	Name    string
	In      string // query or header
	Summary string
	Type    string // string, integer or boolean
}

// Answer is one answer of a route that is not a problem. Body is a zero value
// of its type, nil when there is none.
type Answer struct {
	Status    int
	MediaType string
	Body      any
}

// Route is one operation of the API: enough to serve it and to describe it.
// Problems are the codes it may answer with beside those that every route may
// (bad headers, internal, and 404 and 405 of the router).
type Route struct {
	Method, Pattern string
	ID, Tag         string
	Summary         string
	Params          []Param
	BodyType        string // media type of the request's body, empty: none
	Body            any    // a zero value of its type
	Answers         []Answer
	Problems        []string

	serve func(p *plane, c *call) error
}

const (
	mediaJSON   = "application/json"
	mediaNDJSON = "application/x-ndjson"
	mediaSSE    = "text/event-stream"
	mediaText   = "text/plain; charset=utf-8"
)

// Routes is every route of the API. The slice is the caller's.
func Routes() []Route {
	var all []Route
	all = append(all, policyRoutes()...)
	all = append(all, revisionRoutes()...)
	all = append(all, nodeRoutes()...)
	all = append(all, agentRoutes()...)
	all = append(all, operatorRoutes()...)
	return append(all, healthRoutes()...)
}

func jsonAnswer(status int, body any) []Answer {
	return []Answer{{Status: status, MediaType: mediaJSON, Body: body}}
}

func noContent() []Answer { return []Answer{{Status: http.StatusNoContent}} }

var (
	limitParam  = Param{"limit", "query", "items a page, 1 to 200; 50 when absent", "integer"}
	cursorParam = Param{"cursor", "query", "next_cursor of the page before", "string"}
	keyParam    = Param{"Idempotency-Key", "header", "makes a retry the same write", "string"}
	whoParam    = Param{"X-Edict-Principal", "header", "who writes; anonymous when absent", "string"}
	corrParam   = Param{"X-Correlation-Id", "header", "kept with a revision and echoed in answers", "string"}
)

func writeParams(more ...Param) []Param { return append(more, keyParam, whoParam, corrParam) }

// writeProblems are the codes any write may answer with.
func writeProblems(more ...string) []string {
	return append(more, CodeProjectionBehind, CodeLogUnavailable, CodeStorageLow)
}

// bodyProblems are the codes any route with a body may answer with.
func bodyProblems(more ...string) []string {
	return append(more, "malformed_json", "duplicate_key", "unknown_field", "wrong_type",
		CodeBodyTooLarge, CodeUnsupportedMedia)
}
