package test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// selection is one place of a query that picks series.
type selection struct {
	metric   string
	matchers []matcher
	in       string // the function it is the argument of, or nothing
	ranged   bool
}

type matcher struct{ label, op, value string }

// query is what a PromQL expression asks for: enough of it to say whether the
// plane has it.
type query struct {
	picks  []selection
	groups []string // labels of by, without, on, ignoring and group_left
}

// Functions of PromQL that our queries use, by whether they want a range.
var promFunctions = map[string]bool{
	"rate": true, "increase": true, "changes": true, "delta": true, "min_over_time": true, "max_over_time": true,
	"histogram_quantile": false, "absent": false,
	"sum": false, "min": false, "max": false, "avg": false, "count": false,
}

var promAggregations = []string{"sum", "min", "max", "avg", "count"}

// countersOnly are the functions that expect a reset at a fall.
var countersOnly = []string{"rate", "increase"}

var promToken = regexp.MustCompile(`^(?:\s+|"(?:[^"\\]|\\.)*"|\$__rate_interval|\d+(?:ms|[smhdwy])|\d+(?:\.\d+)?|[A-Za-z_:][A-Za-z0-9_:]*|[=!><]=|[=!]~|[-+*/%^<>=(){}\[\],])`)

// promReader reads an expression by recursive descent.
type promReader struct {
	tokens []string
	query
}

// parseQuery reads a PromQL expression, without its rarer constructs
// (subqueries, offset, @), which it refuses.
func parseQuery(text string) (q query, err error) {
	r := promReader{}
	for rest := text; rest != ""; {
		token := promToken.FindString(rest)
		if token == "" {
			return q, fmt.Errorf("%q: nothing in PromQL begins like %q", text, rest)
		}
		rest = rest[len(token):]
		if strings.TrimSpace(token) != "" {
			r.tokens = append(r.tokens, token)
		}
	}
	defer func() {
		if fault, ok := recover().(promFault); ok {
			err = fmt.Errorf("%q: %s", text, string(fault))
		}
	}()
	r.expression("")
	if len(r.tokens) > 0 {
		r.fail("%q comes too late", r.tokens[0])
	}
	return r.query, nil
}

type promFault string

func (r *promReader) fail(format string, args ...any) { panic(promFault(fmt.Sprintf(format, args...))) }

func (r *promReader) peek() string {
	if len(r.tokens) == 0 {
		return ""
	}
	return r.tokens[0]
}

func (r *promReader) next() string {
	token := r.peek()
	if token == "" {
		r.fail("it ends too early")
	}
	r.tokens = r.tokens[1:]
	return token
}

func (r *promReader) want(token string) {
	if got := r.next(); got != token {
		r.fail("%q where %q was due", got, token)
	}
}

func (r *promReader) accept(tokens ...string) bool {
	if !slices.Contains(tokens, r.peek()) {
		return false
	}
	r.next()
	return true
}

func (r *promReader) expression(in string) {
	r.operand(in)
	for r.accept("+", "-", "*", "/", "%", "^", "==", "!=", "<", ">", "<=", ">=", "and", "or", "unless") {
		if r.accept("on", "ignoring") {
			r.labels()
			if r.accept("group_left", "group_right") && r.peek() == "(" {
				r.labels()
			}
		}
		r.operand(in)
	}
}

func (r *promReader) operand(in string) {
	switch token := r.next(); {
	case token == "(":
		r.expression(in)
		r.want(")")
	case token[0] >= '0' && token[0] <= '9':
		if last := token[len(token)-1]; last > '9' {
			r.fail("%q is a duration, not a number", token)
		}
	case !regexp.MustCompile(`^[A-Za-z_:]`).MatchString(token):
		r.fail("%q is no operand", token)
	case r.peek() == "(" || slices.Contains([]string{"by", "without"}, r.peek()):
		r.call(token)
	default:
		r.selection(token, in)
	}
}

func (r *promReader) call(name string) {
	if _, known := promFunctions[name]; !known {
		r.fail("%s is no function that our queries use", name)
	}
	grouped := slices.Contains(promAggregations, name) && r.grouping()
	r.want("(")
	for {
		r.expression(name)
		if !r.accept(",") {
			break
		}
	}
	r.want(")")
	if !grouped && slices.Contains(promAggregations, name) {
		r.grouping()
	}
}

func (r *promReader) grouping() bool {
	if !r.accept("by", "without") {
		return false
	}
	r.labels()
	return true
}

func (r *promReader) labels() {
	r.want("(")
	for !r.accept(")") {
		r.groups = append(r.groups, r.next())
		if r.peek() != ")" {
			r.want(",")
		}
	}
}

func (r *promReader) selection(metric, in string) {
	s := selection{metric: metric, in: in}
	if r.accept("{") {
		for !r.accept("}") {
			m := matcher{label: r.next(), op: r.next(), value: r.next()}
			if !slices.Contains([]string{"=", "!=", "=~", "!~"}, m.op) || m.value[0] != '"' {
				r.fail("%s%s%s is no matcher", m.label, m.op, m.value)
			}
			m.value = strings.Trim(m.value, `"`)
			s.matchers = append(s.matchers, m)
			if r.peek() != "}" {
				r.want(",")
			}
		}
	}
	if r.accept("[") {
		s.ranged = true
		if d := r.next(); d != "$__rate_interval" && (d[0] < '0' || d[0] > '9' || d[len(d)-1] <= '9') {
			r.fail("%q is no duration", d)
		}
		r.want("]")
	}
	if s.ranged != promFunctions[in] {
		r.fail("%s: a range stands in a function over time, and only there", metric)
	}
	r.picks = append(r.picks, s)
}

// targetLabels come from whoever scrapes.
var targetLabels = []string{"job", "instance", "pod"}

// openLabels have values that a small story does not meet.
var openLabels = []string{"status", "code", "version"}

// faults says what of a query the plane does not have: a metric, a label, a
// value of a closed set; or how it takes a metric for another kind.
func (s scraped) faults(text string) (faults []string) {
	q, err := parseQuery(text)
	if err != nil {
		return []string{err.Error()}
	}
	labels := slices.Clone(targetLabels)
	for _, pick := range q.picks {
		family, has, fault := s.find(pick.metric)
		if fault != "" {
			faults = append(faults, fault)
			continue
		}
		labels = append(labels, has...)
		counts := family[0] == "counter" || family[0] == "histogram"
		if slices.Contains(countersOnly, pick.in) != counts && pick.in != "changes" {
			faults = append(faults, fmt.Sprintf("%s is a %s, and %q is not how to read one", pick.metric, family[0], pick.in))
		}
		for _, m := range pick.matchers {
			if !slices.Contains(append(has, targetLabels...), m.label) {
				faults = append(faults, fmt.Sprintf("%s has no label %s", pick.metric, m.label))
			} else if !slices.Contains(append(openLabels, targetLabels...), m.label) && !s.matches(pick.metric, m) {
				faults = append(faults, fmt.Sprintf("no series of %s has %s%s%q", pick.metric, m.label, m.op, m.value))
			}
		}
	}
	for _, label := range q.groups {
		if !slices.Contains(labels, label) {
			faults = append(faults, fmt.Sprintf("nothing in it has a label %s", label))
		}
	}
	if strings.Contains(text, "histogram_quantile") && (!slices.Contains(q.groups, "le") || !strings.Contains(text, "_bucket")) {
		faults = append(faults, "a quantile is of buckets, summed by le")
	}
	return faults
}

// find is the family of a metric as a query names it, and its labels.
func (s scraped) find(metric string) (family, labels []string, fault string) {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		name, ok := strings.CutSuffix(metric, suffix)
		family, found := s.families[name]
		if !ok || !found || (family[0] == "histogram") != (suffix != "") {
			continue
		}
		labels := strings.Fields(strings.ReplaceAll(family[1], "`", ""))
		if suffix == "_bucket" {
			labels = append(labels, "le")
		}
		return family, labels, ""
	}
	return nil, nil, fmt.Sprintf("the plane shows no metric %s", metric)
}

// matches says whether a series was there that a positive matcher picks.
func (s scraped) matches(metric string, m matcher) bool {
	value := regexp.QuoteMeta(m.value)
	if strings.HasSuffix(m.op, "~") {
		value = "(?:" + m.value + ")"
	}
	want, err := regexp.Compile("^" + regexp.QuoteMeta(metric) + `\{(?:.*,)?` + m.label + `="` + value + `"[,}]`)
	if err != nil {
		return false
	}
	for series := range s.values {
		if want.MatchString(series) {
			return true
		}
	}
	return false
}

func TestWrongQueriesAreFound(t *testing.T) {
	s := scraped{
		values: map[string]float64{`edict_resumes_total{source="past"}`: 1},
		families: map[string][]string{
			"edict_nodes": {"gauge", "", ""}, "edict_resumes_total": {"counter", "`source`", ""}, "edict_age_seconds": {"histogram", "", ""},
		},
	}
	for _, right := range []string{
		"edict_nodes > 3", `sum by (source) (rate(edict_resumes_total{source=~"past"}[5m]))`, "absent(edict_nodes)",
		"histogram_quantile(0.99, sum by (le) (rate(edict_age_seconds_bucket[$__rate_interval])))",
		"rate(edict_age_seconds_sum[5m]) / rate(edict_age_seconds_count[5m])",
		"min(edict_nodes) > 0 and on (job, pod) edict_nodes{job=~\"$job\"}",
	} {
		require.Empty(t, s.faults(right), right)
	}
	for wrong, says := range map[string]string{
		"edict_noodles":                                "no metric edict_noodles",
		"edict_age_seconds":                            "no metric",
		"edict_nodes_bucket":                           "no metric",
		"rate(edict_nodes[5m])":                        "is a gauge",
		"edict_resumes_total > 1":                      "is a counter",
		"rate(edict_resumes_total)":                    "a range stands",
		"edict_nodes[5m]":                              "a range stands",
		"rate(edict_resumes_total[5])":                 "no duration",
		`rate(edict_resumes_total{sauce="ring"}[5m])`:  "no label sauce",
		`rate(edict_resumes_total{source="rink"}[5m])`: `source="rink"`,
		"sum by (node) (edict_nodes)":                  "label node",
		"sum by (source (edict_nodes)":                 "where",
		"sum(edict_nodes":                              "too early",
		"sum(edict_nodes))":                            "too late",
		"summ(edict_nodes)":                            "no function",
		"edict_nodes >":                                "too early",
		"edict_nodes & 1":                              "nothing in PromQL",
		"histogram_quantile(0.99, sum(rate(edict_age_seconds_bucket[5m])))": "summed by le",
	} {
		require.Contains(t, strings.Join(s.faults(wrong), "\n"), says, wrong)
	}
}
