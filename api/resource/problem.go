package resource

import (
	"fmt"
	"net/http"
	"strings"
)

// Problem is an RFC 9457 problem document. Code is stable and made for
// programs, Detail is made for people and may change.
type Problem struct {
	Type          string  `json:"type" doc:"The path of a page that says what the code means, on the plane that answers."`
	Title         string  `json:"title" doc:"The code in words."`
	Status        int     `json:"status" doc:"The HTTP status."`
	Detail        string  `json:"detail" doc:"What went wrong this time and what to do about it, for people."`
	Instance      string  `json:"instance" doc:"The path that was asked."`
	Code          string  `json:"code" doc:"What went wrong, for programs. Codes are stable."`
	CorrelationID string  `json:"correlation_id,omitempty" doc:"Names the request, here and in the plane's log."`
	Errors        []Fault `json:"errors,omitempty" doc:"Every fault of the input."`
	// Sequence is the log sequence of a write that was stored but is not
	// visible yet, or the one a read waited for in vain.
	Sequence uint64 `json:"sequence,omitempty" doc:"The log sequence that is not visible here yet."`
	// Checks are those of a worker that is not ready.
	Checks []Check `json:"checks,omitempty" doc:"The checks of a worker that is not ready."`
	// Policy is the admission policy that decided, and Explain what each of them
	// did, when that was asked for.
	Policy  *Deciding    `json:"policy,omitempty" doc:"The admission policy that decided."`
	Explain *Explanation `json:"explain,omitempty" doc:"What each admission policy did, when that was asked for."`
}

// Fault is one fault of an input: where (a JSON pointer into the body, or the
// name of a parameter after a slash), which rule, and what to do about it.
type Fault struct {
	Pointer string `json:"pointer" doc:"Where: a JSON pointer into the body, or the name of a parameter after a slash."`
	Code    string `json:"code" doc:"Which rule, for programs."`
	Detail  string `json:"detail" doc:"What is wrong and what to do about it, for people."`
}

// String is where, what and the code.
func (f Fault) String() string { return fmt.Sprintf("%s: %s (%s)", f.Pointer, f.Detail, f.Code) }

// Warning is something that a policy may say and likely does not mean. Policy is
// the slug of the other policy that it is about, if there is one.
type Warning struct {
	Fault
	Policy string `json:"policy,omitempty" doc:"The slug of the other policy that the warning is about; absent when it is about this policy alone."`
}

// ProblemPath is where the plane serves a page for each code: the type of a problem is
// the path of its page, relative to the address that was asked.
const ProblemPath = "/errors/"

// NewProblem is a problem of the given status and code; its title is the code
// in words.
func NewProblem(status int, code, format string, args ...any) *Problem {
	return &Problem{
		Type:   ProblemPath + code,
		Title:  title(code, status),
		Status: status,
		Detail: fmt.Sprintf(format, args...),
		Code:   code,
	}
}

// Error is the detail, with a line for each fault below it. Where the detail is that
// of the first fault, it is said once.
func (p *Problem) Error() string {
	lines := make([]string, 0, 1+len(p.Errors))
	if len(p.Errors) == 0 || !strings.HasSuffix(p.Detail, p.Errors[0].Detail) || p.Errors[0].Code != p.Code {
		lines = append(lines, p.summary())
	}
	for _, f := range p.Errors {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// summary is the detail with the code.
func (p *Problem) summary() string {
	text := p.Detail
	if text == "" {
		text = fmt.Sprintf("%d %s", p.Status, http.StatusText(p.Status))
	}
	if p.Code != "" {
		text += " (" + p.Code + ")"
	}
	return text
}

func title(code string, status int) string {
	if code == "" {
		return http.StatusText(status)
	}
	words := strings.ReplaceAll(code, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}
