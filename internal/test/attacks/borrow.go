package attacks

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// unknown are things that nobody has, by the name that a path has for them.
func unknown() map[string]string {
	return map[string]string{"project": uuid.NewString(), "node": "nobody-has-it", "policy": uuid.NewString(), "revision": uuid.NewString(), "principal": "nobody-has-it"}
}

// Oracles asks for what is the victim's, and for what nobody has, in the victim's
// place and in the attacker's own project: the two answers must be the same words.
func (p *Plane) Oracles(t testing.TB) {
	t.Helper()
	theirs, none := p.places(), unknown()
	here := maps.Clone(theirs)
	here["project"] = AttackerProject
	noneHere := maps.Clone(none)
	noneHere["project"] = AttackerProject
	for _, op := range p.operations(t) {
		for _, who := range []string{"attacker", "mallory", "reader"} {
			for _, pair := range [][2]map[string]string{{theirs, none}, {here, noneHere}} {
				a, b := fill(op.pattern, pair[0]), fill(op.pattern, pair[1])
				if a == b || may(who, op.needs) || tells(op, pair[0]) {
					continue
				}
				p.tried++
				one, said := p.Ask(t, who, op.method, a, body(strings.ToLower(op.method)))
				other, said2 := p.Ask(t, who, op.method, b, body(strings.ToLower(op.method)))
				if one != other || plain(said, pair[0]) != plain(said2, pair[1]) {
					t.Errorf("%s: %s %s: %d %s\nof what nobody has: %d %s", who, op.method, a, one, plain(said, pair[0]), other, plain(said2, pair[1]))
				}
				if one < 300 && strings.Contains(string(said), p.Policy) {
					t.Errorf("%s: %s %s: %d %.300s", who, op.method, a, one, said)
				}
			}
		}
	}
}

// tells names what docs/access.md says can be asked for: a node's id is unique in
// the plane, so one that another project has is said to be taken.
func tells(op described, in map[string]string) bool {
	return in["project"] == AttackerProject && op.method == http.MethodPut && strings.HasSuffix(op.pattern, "/nodes/{node}")
}

// plain is an answer without what names the request and what it asked for.
func plain(answer []byte, names map[string]string) string {
	var doc map[string]any
	if json.Unmarshal(answer, &doc) != nil {
		return string(answer)
	}
	delete(doc, "instance")
	delete(doc, "correlation_id")
	text, _ := json.Marshal(doc)
	out := string(text)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = strings.ReplaceAll(out, names[name], "<"+name+">")
	}
	return out
}

// described is an operation of the plane's description.
type described struct{ method, pattern, needs string }

// operations are those that ask for credentials and have something in their path.
func (p *Plane) operations(t testing.TB) (all []described) {
	t.Helper()
	_, text := p.Ask(t, "nobody", http.MethodGet, "/openapi.json", nil)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	for _, pattern := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[pattern])) {
			var o operation
			if json.Unmarshal(doc.Paths[pattern][method], &o) == nil && o.Needs != "" && o.Needs != "nothing" {
				all = append(all, described{strings.ToUpper(method), pattern, o.Needs})
			}
		}
	}
	return all
}

// fill is a pattern with names in their places; what has none is as it stands.
func fill(pattern string, names map[string]string) string {
	for name, value := range names {
		pattern = strings.ReplaceAll(pattern, "{"+name+"}", url.PathEscape(value))
	}
	return strings.NewReplacer("{", "", "}", "").Replace(pattern)
}
