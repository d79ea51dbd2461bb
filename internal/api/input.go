package api

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

const (
	maxBody  = 1 << 20 // bytes of a document, inflated too
	maxBatch = 2 << 30 // bytes a compressed batch may inflate to

	// A batch may inflate to so many bytes, and so many times what came of it, so
	// that what it costs stays in proportion to what was sent.
	freeInflated = 8 << 20
	maxInflation = 100

	maxDrain  = 16 << 20
	bodyQuiet = 30 * time.Second // a body must arrive within, or each chunk of a stream
)

// document reads a JSON body of at most maxBody bytes.
func (c *call) document() ([]byte, error) {
	if err := c.mediaType(mediaJSON); err != nil {
		return nil, err
	}
	return c.body()
}

// decoded reads one JSON document, and what it says. decode names every fault.
func decoded[T any](c *call, decode func([]byte) (T, error)) (out T, err error) {
	body, err := c.document()
	if err != nil {
		return out, err
	}
	if out, err = decode(body); err != nil {
		return out, invalid(err)
	}
	return out, nil
}

// body reads a body of at most maxBody bytes, of whatever it is.
func (c *call) body() ([]byte, error) {
	if c.r.ContentLength > maxBody {
		return nil, c.tooLarge()
	}
	c.expectBytes()
	defer c.expectNothing()
	body, err := c.inflated()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if err != nil {
		return nil, unreadable(err)
	}
	if len(b) > maxBody {
		return nil, c.tooLarge()
	}
	if c.key != "" {
		c.digest = askedBy(b)
	}
	return b, nil
}

// mergePatch reads a body that may come as a merge patch or as plain JSON.
func (c *call) mergePatch() ([]byte, error) {
	given := c.r.Header.Values("Content-Type")
	if media, _, _ := strings.Cut(strings.Join(given, ","), ";"); strings.TrimSpace(media) == mediaMergePatch {
		c.r.Header.Set("Content-Type", mediaJSON)
	}
	return c.document()
}

// lenient reads a JSON body of an agent, which may have members that are not
// known here.
func (c *call) lenient(into any) error {
	body, err := c.document()
	if err != nil {
		return err
	}
	err = json.Unmarshal(body, into)
	var wrong *json.SemanticError
	switch {
	case err == nil && jsontext.Value(body).Kind() == jsontext.KindNull:
		return broken(http.StatusBadRequest, policy.CodeWrongType, "", "%s: want an object, found null", at(""))
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		pointer := string(wrong.JSONPointer)
		return broken(http.StatusBadRequest, policy.CodeWrongType, pointer, "%s: %s", at(pointer), misfit(wrong))
	case errors.Is(err, jsontext.ErrDuplicateName):
		return problem(http.StatusBadRequest, policy.CodeDuplicateKey, "the body names a member twice: %v", err)
	}
	return unreadable(err)
}

// once refuses a header that stands more than once: what stands between may have read another
// of them than is read here.
func once(h http.Header, name string) error {
	if n := len(h.Values(name)); n > 1 {
		return problem(http.StatusUnsupportedMediaType, CodeUnsupportedMedia, "%s stands %d times; send it once", name, n)
	}
	return nil
}

// mediaType checks what the body claims to be.
func (c *call) mediaType(want string) error {
	if err := once(c.r.Header, "Content-Type"); err != nil {
		return err
	}
	got := c.r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(got)
	if err != nil || media != want {
		return problem(http.StatusUnsupportedMediaType, CodeUnsupportedMedia,
			"Content-Type is %q; this route takes %s", got, want)
	}
	if set := params["charset"]; set != "" && !strings.EqualFold(set, "utf-8") {
		return problem(http.StatusUnsupportedMediaType, CodeUnsupportedMedia, "charset is %q; send UTF-8", set)
	}
	return nil
}

// inflated is the body as its author wrote it.
func (c *call) inflated() (io.Reader, error) {
	if err := once(c.r.Header, "Content-Encoding"); err != nil {
		return nil, err
	}
	switch encoding := strings.ToLower(c.r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return c.r.Body, nil
	case "gzip":
		z, err := gzip.NewReader(c.r.Body)
		if err != nil {
			return nil, unreadable(err)
		}
		return z, nil
	default:
		return nil, problem(http.StatusUnsupportedMediaType, CodeUnsupportedMedia,
			"Content-Encoding is %q; send gzip or nothing", encoding)
	}
}

func unreadable(err error) error {
	return problem(http.StatusBadRequest, policy.CodeMalformedJSON, "the body cannot be read: %v", err)
}

// tooLarge reads on for a while, so that a client that sends first and listens
// later gets to hear the answer.
func (c *call) tooLarge() error {
	c.expectBytes()
	defer c.expectNothing()
	_, _ = io.CopyN(io.Discard, c.r.Body, maxDrain)
	return problem(http.StatusRequestEntityTooLarge, CodeBodyTooLarge, "a body is at most %d bytes", maxBody)
}

// expectBytes bounds the time until the next read of the body ends, and
// expectNothing lifts the bound, which would end the request otherwise. Writers
// that know no deadline (in tests) have no slow clients either.
func (c *call) expectBytes() {
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(bodyQuiet))
}

func (c *call) expectNothing() {
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
}

// pathID reads a UUID of the path.
func (c *call) pathID(name string) (uuid.UUID, error) {
	id, ok := parseID(c.r.PathValue(name))
	if !ok {
		return uuid.Nil, broken(http.StatusUnprocessableEntity, policy.CodeInvalidUUID, "/"+name,
			"the %s in the path is not a UUID", name)
	}
	return id, nil
}

// pathIDs reads the project and another UUID of the path.
func (c *call) pathIDs(name string) (project, id uuid.UUID, err error) {
	if project, err = c.pathID("project"); err == nil {
		id, err = c.pathID(name)
	}
	return project, id, err
}

// queryID reads a UUID that the query must have.
func (c *call) queryID(name string) (uuid.UUID, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return uuid.Nil, broken(http.StatusUnprocessableEntity, policy.CodeMissing, "/"+name, "the query needs %s", name)
	}
	id, ok := parseID(text)
	if !ok {
		return uuid.Nil, broken(http.StatusUnprocessableEntity, policy.CodeInvalidUUID, "/"+name, "%s is not a UUID", name)
	}
	return id, nil
}

// anyProject reads the project of the path, or else of the query; uuid.Nil: neither names one.
func anyProject(c *call) (uuid.UUID, error) {
	switch {
	case c.r.PathValue("project") != "":
		return c.pathID("project")
	case c.r.URL.Query().Has("project"):
		return c.queryID("project")
	}
	return uuid.Nil, nil
}

// parseID reads the one text form ids have here.
func parseID(s string) (uuid.UUID, bool) {
	if len(s) != 36 {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(s)
	return id, err == nil && id != uuid.Nil
}

// pathNode reads the node id of the path.
func (c *call) pathNode() (policy.NodeID, error) {
	id, err := policy.ParseNodeID(c.r.PathValue("node"))
	if err != nil {
		return "", broken(http.StatusUnprocessableEntity, policy.CodeInvalidNodeID, "/node",
			"a node id is a DNS label: 1 to 63 of a-z, 0-9 and '-', not at its ends")
	}
	return id, nil
}

// queryUint reads a number of the query; def when it is absent.
func (c *call) queryUint(name string, def uint64) (uint64, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, broken(http.StatusBadRequest, CodeBadParameter, "/"+name, "%s is not a non-negative number", name)
	}
	return n, nil
}

// queryTime reads a moment of the query.
func (c *call) queryTime(name string) (time.Time, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, broken(http.StatusUnprocessableEntity, policy.CodeMissing, "/"+name, "the query needs %s", name)
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, broken(http.StatusBadRequest, CodeBadParameter, "/"+name, "%.40q is no time; write it as 2026-11-20T12:00:00Z%s", text, plusHint(text))
	}
	return at, nil
}

// plusHint is for a time with an offset that was not escaped: a query has a blank for a plus.
func plusHint(text string) string {
	if strings.Contains(text, " ") {
		return ", and the + of an offset as %2B"
	}
	return ""
}

// queryFlag reads a switch of the query: absent is off, present without a value on.
func (c *call) queryFlag(name string) (bool, error) {
	q := c.r.URL.Query()
	if !q.Has(name) {
		return false, nil
	}
	if q.Get(name) == "" {
		return true, nil
	}
	on, err := strconv.ParseBool(q.Get(name))
	if err != nil {
		return false, broken(http.StatusBadRequest, CodeBadParameter, "/"+name, "%s is neither true nor false", name)
	}
	return on, nil
}

// unseen are characters that a reader does not see, or that move what is around
// them: a name with one can look like another's. Joiners are among them.
var unseen = []*unicode.RangeTable{unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point}

// checkName refuses a display name that does not look like what it is. The fold
// takes it: who appends to the log by himself is shown quoted.
func checkName(pointer, name string) error {
	for i, r := range name {
		if unicode.In(r, unseen...) {
			return broken(http.StatusUnprocessableEntity, policy.CodeInvalidDisplayName, pointer,
				"%U at byte %d is not seen, or moves the text around it; remove it", r, i)
		}
	}
	return nil
}
