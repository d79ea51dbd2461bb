// Package contract holds answers of the plane against the plane's own
// description of itself: an OpenAPI 3.1 document, read as any client would read
// it. It shares no code with what it judges.
package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Contract is a document ready to judge answers. It is safe for concurrent use.
type Contract struct {
	doc        document
	raw        any
	operations []*operation
	problems   map[string]map[string][]string // problemsOf responses, by pointer

	mu       sync.Mutex // the compiler's, and what follows
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer
	reached  map[string]bool               // "operation status"

	good sync.Map // sha256 of a pointer and a text that was found good
}

// document is what of OpenAPI matters here.
type document struct {
	OpenAPI string                                `json:"openapi"`
	Paths   map[string]map[string]json.RawMessage `json:"paths"`

	Components struct {
		Parameters map[string]parameter `json:"parameters"`
		Responses  map[string]response  `json:"responses"`
		Headers    map[string]header    `json:"headers"`
	} `json:"components"`
}

type operation struct {
	ID          string `json:"operationId"`
	Parameters  []parameter
	RequestBody *struct {
		Content map[string]media `json:"content"`
	} `json:"requestBody"`
	Responses map[string]response `json:"responses"`

	Description string              `json:"description"`
	problems    map[string][]string // codes by status; common ones are not there

	method, pattern string
	pointer         string   // to the operation
	segments        []string // of pattern
}

type parameter struct {
	Ref      string `json:"$ref"`
	Name     string
	In       string
	Required bool
}

type response struct {
	Ref         string            `json:"$ref"`
	Description string            `json:"description"`
	Headers     map[string]header `json:"headers"`
	Content     map[string]media  `json:"content"`

	at       string              // pointer
	problems map[string][]string // codes by status
}

type header struct {
	Ref      string `json:"$ref"`
	Required bool   `json:"required"`
}

type media struct {
	Schema struct {
		Parts json.RawMessage `json:"contentSchema"`
	} `json:"schema"`
}

const docURL = "edict:openapi.json"

// New reads a document.
func New(doc []byte) (*Contract, error) {
	c := &Contract{problems: map[string]map[string][]string{}, schemas: map[string]*jsonschema.Schema{}, reached: map[string]bool{}}
	if err := json.Unmarshal(doc, &c.doc); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	if !strings.HasPrefix(c.doc.OpenAPI, "3.1.") {
		return nil, fmt.Errorf("the document is of OpenAPI %q; want 3.1", c.doc.OpenAPI)
	}
	var err error
	if c.raw, err = jsonschema.UnmarshalJSON(bytes.NewReader(doc)); err != nil {
		return nil, err
	}
	c.compiler = newCompiler()
	if err := c.compiler.AddResource(docURL, c.raw); err != nil {
		return nil, err
	}
	for pattern, item := range c.doc.Paths {
		for method, raw := range item {
			op := &operation{method: strings.ToUpper(method), pattern: pattern}
			if err := json.Unmarshal(raw, op); err != nil {
				return nil, fmt.Errorf("%s %s: %w", op.method, pattern, err)
			}
			op.pointer = pointer("paths", pattern, method)
			op.segments = strings.Split(pattern, "/")
			c.resolve(op)
			c.operations = append(c.operations, op)
		}
	}
	slices.SortFunc(c.operations, func(a, b *operation) int { return strings.Compare(a.ID, b.ID) })
	return c, nil
}

// serves reports whether an escaped path, in its segments, is of the operation's template. A
// wildcard is a whole segment, and stands for any but an empty one.
func (op *operation) serves(path []string) bool {
	return slices.EqualFunc(op.segments, path, func(s, got string) bool {
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") {
			return got != ""
		}
		return s == got
	})
}

// newCompiler knows the formats of the document, and holds values to them.
func newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	text := func(check func(string) error) func(any) error {
		return func(v any) error {
			if s, ok := v.(string); ok {
				return check(s)
			}
			return nil
		}
	}
	c.RegisterFormat(&jsonschema.Format{Name: "cidr", Validate: text(func(s string) error {
		p, err := netip.ParsePrefix(s)
		if err == nil && p != p.Masked() {
			err = fmt.Errorf("%s has bits beyond its length", s)
		}
		return err
	})})
	c.RegisterFormat(&jsonschema.Format{Name: "ip", Validate: text(func(s string) error {
		_, err := netip.ParseAddr(s)
		return err
	})})
	return c
}

// pointer is a JSON pointer of these parts.
func pointer(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(p, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// find is the operation of a request; HEAD is GET without its body. known tells
// that the path is there, for other methods.
func (c *Contract) find(r *http.Request) (op *operation, known bool) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path := strings.Split(r.URL.EscapedPath(), "/")
	if slices.ContainsFunc(path, func(s string) bool { return strings.EqualFold(s, "%2F") }) {
		return nil, false // a lone slash is no value: routers take it for the end of a path
	}
	for _, o := range c.operations {
		if o.serves(path) {
			known = true
			if o.method == method {
				return o, true
			}
		}
	}
	return nil, known
}

// schema compiles the schema at a pointer, once.
func (c *Contract) schema(at string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.schemas[at]; ok {
		return s, nil
	}
	s, err := c.compiler.Compile(docURL + "#" + (&url.URL{Fragment: at}).EscapedFragment())
	if err != nil {
		return nil, err
	}
	c.schemas[at] = s
	return s, nil
}

// validate holds a JSON text against the schema at a pointer. A text that was
// found good is not read again: ten thousand nodes have a few hundred states.
func (c *Contract) validate(at string, text []byte) error {
	seen := sha256.Sum256(append([]byte(at+"\n"), text...))
	if _, good := c.good.Load(seen); good {
		return nil
	}
	if err := c.judge(at, text); err != nil {
		return err
	}
	c.good.Store(seen, nil)
	return nil
}

func (c *Contract) judge(at string, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	s, err := c.schema(at)
	if err != nil {
		return err
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("%w\n%.2000s", err, text)
	}
	return nil
}

// Check judges an answer by its status, its headers and its body. A request's
// body, when it is given and the answer is good, must be as described too: the
// description may not ask for more than the plane does.
func (c *Contract) Check(req *http.Request, sent []byte, res *http.Response, body []byte) error {
	if err := c.check(req, sent, res, body); err != nil {
		return fmt.Errorf("%s %s answers %d, which is not as described: %w", req.Method, req.URL, res.StatusCode, err)
	}
	return nil
}

func (c *Contract) check(req *http.Request, sent []byte, res *http.Response, body []byte) error {
	op, known := c.find(req)
	if op == nil {
		return c.checkRouter(known, res, body)
	}
	status := fmt.Sprint(res.StatusCode)
	want, ok := op.Responses[status]
	if !ok {
		if want, ok = op.Responses[status[:1]+"XX"]; !ok || op.problems[status] == nil {
			return fmt.Errorf("operation %s has no such status", op.ID)
		}
		if err := op.checkCode(want, status, req, body); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.reached[op.ID+" "+status] = true
	c.mu.Unlock()
	if err := checkHeaders(want, res.Header); err != nil {
		return err
	}
	if err := c.checkBody(req, op, want, res, body); err != nil {
		return err
	}
	return c.checkSent(req, op, sent, res.StatusCode)
}

// checkRouter judges answers of no operation: a problem, of one of two codes.
func (c *Contract) checkRouter(known bool, res *http.Response, body []byte) error {
	status, code := http.StatusNotFound, "route_not_found"
	if known {
		status, code = http.StatusMethodNotAllowed, "method_not_allowed"
		if res.Header.Get("Allow") == "" {
			return fmt.Errorf("no Allow header")
		}
	}
	if res.StatusCode != status {
		return fmt.Errorf("the document has no such operation; want a %d", status)
	}
	if len(body) == 0 && res.Request != nil && res.Request.Method == http.MethodHead {
		return nil
	}
	var p struct{ Code string }
	if err := json.Unmarshal(body, &p); err != nil || p.Code != code {
		return fmt.Errorf("want code %s: %s", code, body)
	}
	return c.validate(pointer("components", "schemas", "Problem"), body)
}

// spoken are headers that say something about the plane: they are documented
// where they occur. The others are HTTP's.
var spoken = regexp.MustCompile(`^(Etag|Location|Retry-After|Edict-.*|X-Correlation-Id|X-Edict-.*|X-Plexsphere-.*|Last-Modified|Link|Warning)$`)

// correlation is the header that every answer has.
const correlation = "X-Correlation-Id"

func checkHeaders(want response, got http.Header) error {
	documented := map[string]bool{correlation: true}
	if got.Get(correlation) == "" {
		return fmt.Errorf("no header %s", correlation)
	}
	for name, h := range want.Headers {
		documented[http.CanonicalHeaderKey(name)] = true
		if h.Required && got.Get(name) == "" {
			return fmt.Errorf("no header %s", name)
		}
	}
	for name := range got {
		if spoken.MatchString(name) && !documented[name] {
			return fmt.Errorf("header %s is not documented", name)
		}
	}
	return nil
}

func (c *Contract) checkBody(req *http.Request, op *operation, want response, res *http.Response, body []byte) error {
	if len(want.Content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("a body where none is documented: %s", body)
		}
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("content type %q: %w", res.Header.Get("Content-Type"), err)
	}
	content, ok := want.Content[mediaType]
	if !ok {
		return fmt.Errorf("content type %s is not documented", mediaType)
	}
	if req.Method == http.MethodHead {
		return nil
	}
	at := want.at + pointer("content", mediaType, "schema")
	switch {
	case mediaType == "text/event-stream" && content.Schema.Parts != nil:
		return c.checkFrames(at+"/contentSchema", body)
	case mediaType == "application/x-ndjson" && content.Schema.Parts != nil:
		for line := range bytes.Lines(body) {
			if err := c.validate(at+"/contentSchema", line); err != nil {
				return err
			}
		}
		return nil
	case strings.HasSuffix(mediaType, "json"):
		return c.validate(at, body)
	}
	return nil
}

// checkFrames judges the whole events of a stream; one cut off is left alone.
func (c *Contract) checkFrames(at string, stream []byte) error {
	frames := bytes.Split(stream, []byte("\n\n"))
	for _, frame := range frames[:len(frames)-1] {
		var data []byte
		for line := range bytes.SplitSeq(frame, []byte("\n")) {
			if rest, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				data = append(append(data, rest...), '\n')
			}
		}
		if data == nil {
			continue
		}
		if err := c.validate(at, data); err != nil {
			return err
		}
	}
	return nil
}

func (c *Contract) checkSent(req *http.Request, op *operation, sent []byte, status int) error {
	if op.RequestBody == nil || len(sent) == 0 || status >= 300 || req.Header.Get("Content-Encoding") != "" {
		return nil
	}
	if _, ok := op.RequestBody.Content["application/json"]; !ok {
		return nil // lines are judged one by one, by the plane
	}
	if err := c.validate(op.pointer+pointer("requestBody", "content", "application/json", "schema"), sent); err != nil {
		return fmt.Errorf("but the request that it was good for is not: %w", err)
	}
	return nil
}

// Operations lists the ids of all operations.
func (c *Contract) Operations() []string {
	var ids []string
	for _, op := range c.operations {
		ids = append(ids, op.ID)
	}
	return ids
}

// Unreached lists what is documented and was never answered, as "operation
// status".
func (c *Contract) Unreached() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, op := range c.operations {
		for _, status := range op.statuses() {
			if key := op.ID + " " + status; !c.reached[key] {
				out = append(out, key)
			}
		}
	}
	slices.Sort(out)
	return out
}

// CheckParameters says which parameters of a request the document does not
// know, or asks for in vain.
func (c *Contract) CheckParameters(r *http.Request) error {
	op, _ := c.find(r)
	if op == nil {
		return fmt.Errorf("no operation for %s %s", r.Method, r.URL)
	}
	known := map[string]bool{}
	for _, p := range op.Parameters {
		known[p.In+" "+http.CanonicalHeaderKey(p.Name)] = true
		if p.In == "query" && p.Required && !r.URL.Query().Has(p.Name) {
			return fmt.Errorf("%s needs %s", op.ID, p.Name)
		}
	}
	for name := range r.URL.Query() {
		if !known["query "+http.CanonicalHeaderKey(name)] {
			return fmt.Errorf("%s knows no query parameter %s", op.ID, name)
		}
	}
	for name := range r.Header {
		if ours.MatchString(name) && !known["header "+name] {
			return fmt.Errorf("%s knows no header %s", op.ID, name)
		}
	}
	return nil
}

// ours are headers of requests that mean something to the plane alone.
var ours = regexp.MustCompile(`^(Idempotency-Key|Last-Event-Id|If-None-Match|X-Correlation-Id|Edict-.*)$`)
