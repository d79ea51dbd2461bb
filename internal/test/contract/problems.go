package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// resolve puts what an operation refers to in its place, and reads its description.
func (c *Contract) resolve(op *operation) {
	for i, p := range op.Parameters {
		if p.Ref != "" {
			op.Parameters[i] = c.doc.Components.Parameters[last(p.Ref)]
		}
	}
	for status, r := range op.Responses {
		at := op.pointer + pointer("responses", status)
		if r.Ref != "" {
			at = strings.TrimPrefix(r.Ref, "#")
			r = c.doc.Components.Responses[last(r.Ref)]
		}
		r.at = at
		headers := map[string]header{}
		for name, h := range r.Headers {
			if h.Ref != "" {
				h = c.doc.Components.Headers[last(h.Ref)]
			}
			headers[name] = h
		}
		r.Headers = headers
		r.problems = c.problemsAt(at, r.Description)
		op.Responses[status] = r
	}
	op.problems = problemsOf(op.Description)
	anyone, named := usual(op.Responses)
	if !strings.HasPrefix(op.Description, "Open to all.") {
		anyone = append(anyone, named...)
	}
	for _, status := range anyone {
		op.problems[status] = append([]string{}, op.problems[status]...)
	}
}

// saidOnce is where the description of a problem says which statuses all operations may have,
// and which all that are not open to all.
var saidOnce = regexp.MustCompile(`Any operation may be ([0-9, and]+), and one that is not open to all ([0-9, and]+)\.`)

// usual are the statuses that the document does not repeat in each operation.
func usual(responses map[string]response) (anyone, named []string) {
	status := regexp.MustCompile("[45][0-9]{2}")
	for _, r := range responses {
		if m := saidOnce.FindStringSubmatch(r.Description); m != nil {
			return status.FindAllString(m[1], -1), status.FindAllString(m[2], -1)
		}
	}
	return nil, nil
}

func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// statusAndCodes is a status with the codes that follow it, as descriptions list them.
var statusAndCodes = regexp.MustCompile("\\b([45][0-9]{2})((?: `[a-z_]+`)*)")

// problemsOf reads codes by status.
func problemsOf(description string) map[string][]string {
	out := map[string][]string{}
	for _, m := range statusAndCodes.FindAllStringSubmatch(description, -1) {
		out[m[1]] = append(append([]string{}, out[m[1]]...), strings.Fields(strings.ReplaceAll(m[2], "`", ""))...)
	}
	return out
}

// problemsAt is problemsOf, once for all operations that refer to the same response.
func (c *Contract) problemsAt(at, description string) map[string][]string {
	if c.problems[at] == nil {
		c.problems[at] = problemsOf(description)
	}
	return c.problems[at]
}

// checkCode wants the code of a problem to be one of the operation, or a common one.
func (op *operation) checkCode(want response, status string, req *http.Request, body []byte) error {
	if req.Method == http.MethodHead {
		return nil
	}
	var p struct {
		Status *int
		Code   *string
	}
	if err := json.Unmarshal(body, &p); err != nil || p.Status == nil || fmt.Sprint(*p.Status) != status {
		return fmt.Errorf("want a problem of status %s: %s", status, body)
	}
	if p.Code == nil {
		return nil // of v1alpha1
	}
	if codes := slices.Concat(want.problems[status], op.problems[status]); !slices.Contains(codes, *p.Code) {
		return fmt.Errorf("code %s is none of %v", *p.Code, codes)
	}
	return nil
}

// statuses are all that an operation documents.
func (op *operation) statuses() []string {
	all := slices.Collect(maps.Keys(op.problems))
	for status := range op.Responses {
		if !strings.HasSuffix(status, "XX") {
			all = append(all, status)
		}
	}
	return all
}
