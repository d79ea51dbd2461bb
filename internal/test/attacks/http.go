package attacks

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// operation is what the description says of one.
type operation struct {
	Needs string `json:"x-needs"`
}

// places are the victim's, by the name that a path has for them. What is not among
// them is anything.
func (p *Plane) places() map[string]string {
	return map[string]string{"project": VictimProject, "node": VictimNode, "policy": p.Policy, "revision": p.Revision, "principal": "alice"}
}

// OverHTTP tries every operation that the plane describes, on what is the victim's,
// as everybody who has no right to it.
func (p *Plane) OverHTTP(t testing.TB) {
	t.Helper()
	_, text := p.Ask(t, "nobody", http.MethodGet, "/openapi.json", nil)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	for _, pattern := range slices.Sorted(maps.Keys(doc.Paths)) {
		path := p.at(pattern)
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[pattern])) {
			var o operation
			if json.Unmarshal(doc.Paths[pattern][method], &o) != nil || o.Needs == "" || o.Needs == "nothing" {
				continue
			}
			for _, who := range []string{"nobody", "forger", "attacker", "mallory", "reader", "watcher"} {
				if may(who, o.Needs) {
					continue
				}
				p.tried++
				status, answer := p.Ask(t, who, strings.ToUpper(method), path, o.body(method))
				if o.showsNothing(who, status, answer) {
					continue
				}
				if !slices.Contains(refusals(who), status) {
					t.Errorf("%s: %s %s, which needs %s: %d %.200s", who, method, path, o.Needs, status, answer)
				}
			}
		}
	}
}

// at fills a pattern with what is the victim's.
func (p *Plane) at(pattern string) string {
	known := p.places()
	var out strings.Builder
	for rest := pattern; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		out.WriteString(before)
		if !found {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		value, there := known[name]
		if !there {
			value = p.Policy
		}
		out.WriteString(url.PathEscape(value))
		rest = tail
	}
	return out.String()
}

// body is what an operation is tried with: where users may write policies of their
// own, a policy for everybody.
func (o operation) body(method string) []byte {
	if method == "post" && strings.Contains(o.Needs, "to be its user") {
		return []byte(`{"name":"everywhere","policy_type":"Global","priority":1,"rego_code":"package policies.everywhere\nmain := {\"rejected\": true}"}`)
	}
	return body(method)
}

// showsNothing reports whether an operation that shows everybody what is his showed an
// empty list.
func (o operation) showsNothing(who string, status int, answer []byte) bool {
	if who == "nobody" || who == "forger" || !strings.Contains(o.Needs, "of what is shown") {
		return false
	}
	var list struct{ Items []json.RawMessage }
	return status == http.StatusServiceUnavailable || // there is nothing here to show to anybody
		status == http.StatusOK && json.Unmarshal(answer, &list) == nil && list.Items != nil && len(list.Items) == 0
}

func body(method string) []byte {
	if method == "get" || method == "delete" || method == "head" {
		return nil
	}
	return []byte(`{}`)
}

// may reports whether an operation is not refused to somebody, whoever's it is.
func may(who, needs string) bool {
	switch who {
	case "nobody", "forger":
		return false
	case "watcher":
		return needs == "a principal" || strings.HasPrefix(needs, "plane#read")
	}
	return needs == "a principal"
}

// refusals are how one is refused: unknown, or not allowed; too often, where one
// guesses.
func refusals(who string) []int {
	switch who {
	case "nobody":
		return []int{http.StatusUnauthorized}
	case "forger":
		return []int{http.StatusUnauthorized, http.StatusTooManyRequests}
	}
	return []int{http.StatusForbidden, http.StatusNotFound}
}
