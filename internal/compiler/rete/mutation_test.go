package rete_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// brokenRules judges a repository: the rules that are broken.
func brokenRules(repo fs.FS) []string {
	names, faults := rete.Discover(repo)
	view, more := rete.Load(repo, names)
	if faults = append(faults, more...); len(faults) == 0 {
		_, faults = rete.Validate(view, repo)
	}
	var rules []string
	for _, f := range rete.Violations(faults) {
		rules = append(rules, f.Rule)
	}
	return slices.Compact(rules)
}

// field is one scalar or list of the example, by its place in the YAML.
type field struct {
	file string
	path string // such as services/api/at
	node *yaml.Node
	drop func() // removes it from what holds it
}

// fieldsOf lists every field of a tree.
func fieldsOf(file, path string, n *yaml.Node) (all []field) {
	switch n.Kind {
	case yaml.DocumentNode:
		return fieldsOf(file, path, n.Content[0])
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			below := path + "/" + n.Content[i].Value
			all = append(all, field{file, below, n.Content[i+1], func() { n.Content = slices.Delete(n.Content, i, i+2) }})
			all = append(all, fieldsOf(file, below, n.Content[i+1])...)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			below := fmt.Sprintf("%s/%d", path, i)
			all = append(all, field{file, below, c, func() { n.Content = slices.Delete(n.Content, i, i+1) }})
			all = append(all, fieldsOf(file, below, c)...)
		}
	}
	return all
}

// mutated is the example with one field changed.
func mutated(example fstest.MapFS, file string, index int, change func(field)) fstest.MapFS {
	var root yaml.Node
	if err := yaml.Unmarshal(example[file].Data, &root); err != nil {
		panic(err)
	}
	change(fieldsOf(file, "", &root)[index])
	block(&root)
	text, err := yaml.Dump(&root)
	if err != nil {
		panic(err)
	}
	repo := fstest.MapFS{}
	for name, f := range example {
		repo[name] = f
	}
	repo[file] = &fstest.MapFile{Data: text}
	return repo
}

// block lays a tree out without braces: in them, a key without a value is not
// printed as it was read.
func block(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle
	for _, c := range n.Content {
		block(c)
	}
}

// mutation says what a change of one field must come to. The first expectation
// whose pattern the field's path matches counts.
type mutation struct {
	pattern string // of path segments; * is any
	rules   string // one of these must be broken; "ok": it still validates
	why     string
}

// removed says what follows from removing a field.
var removed = []mutation{
	{"/rete", "13", ""},
	{"/rete/ca/validity_days", "ok", "it has a default"},
	{"/rete/signers/mgmt/validity_days", "ok", "it has a default"},
	{"/rete/tls_principals", "ok", "policy for certificates that are not here, with a default"},
	{"/rete/tls_principals/validity_days", "ok", "it has a default"},
	{"/rete/signers/mgmt/keys/0", "8a", ""},
	{"/rete/*", "1", ""},
	{"/rete/*/*", "1", ""},
	{"/rete/*/*/*", "1", ""},
	{"/rete/*/*/*/*/*", "1", ""},
	{"/nodes", "2 5", ""},
	{"/nodes/*", "2 5", ""},
	{"/nodes/*/vertices", "1", ""},
	{"/nodes/*/vertices/0", "9", ""},
	{"/nodes/*/vertices/0/name", "ok", "the only vertex of its type is named after it"},
	{"/nodes/mgmt/vertices/0/address", "6", ""},
	{"/nodes/*/vertices/0/address", "9", ""},
	{"/nodes/*/vertices/0/*", "1", ""},
	{"/services", "6 8", ""},
	{"/services/config-server", "6", ""},
	{"/services/config-publisher", "6", ""},
	{"/services/*", "ok", "others are free to go"},
	{"/services/*/at", "1", ""},
	{"/services/*/addr", "1", ""},
	{"/services/config-server/groups", "6", ""},
	{"/services/config-publisher/groups", "6", ""},
	{"/services/config-server/groups/0", "6", ""},
	{"/services/config-publisher/groups/0", "6", ""},
	{"/services/*/groups", "ok", "nobody may reach it then"},
	{"/services/*/groups/0", "ok", "nobody may reach it then"},
	{"/services/api/roles", "12", ""},
	{"/services/api/roles/0", "12", ""},
	{"/services/api/socks5_proxy", "ok", "a warning: roles without a listener"},
	{"/services/ssh/scope", "4", "another identity"},
	{"/groups", "7 11", ""},
	{"/groups/*", "7 11", ""},
	{"/roles", "7", ""},
	{"/roles/node", "7", ""},
	{"/roles/operator", "2 7", ""},
	{"/roles/api-backend", "11", ""},
	{"/roles/*", "2", ""},
	{"/roles/*/allow", "1", ""},
	{"/roles/node/allow/0", "7", ""},
	{"/roles/operator/allow/0", "7", ""},
	{"/roles/*/allow/*", "ok", "a role may grant less"},
	{"/users", "8", ""},
	{"/users/bob", "8", ""},
	{"/users/bob/roles", "8", ""},
	{"/users/bob/roles/0", "8", ""},
	{"/users/*", "ok", "others are free to go"},
	{"/users/*/roles", "ok", "a user may reach nothing"},
	{"/users/*/roles/*", "ok", "a user may reach less"},
	{"/users/*/nodes", "ok", "a user without device"},
	{"/users/*/nodes/0", "ok", "a user without device"},
	{"/users/*/nodes/0/at", "1", ""},
}

// replaced says what follows from another word in a field's place.
var replaced = []mutation{
	{"/rete/name", "4 8a", "every identity is another"},
	{"/rete/ca/cert", "8a", ""},
	{"/rete/signers/mgmt/keys/0/*", "8a", ""},
	{"/nodes/*/vertices/0/name", "ok", "a vertex may have any name"},
	{"/services/config-server/at", "5 6", ""},
	{"/services/*/at", "5", ""},
	{"/services/config-server/groups/0", "6", ""},
	{"/services/config-publisher/groups/0", "6", ""},
	{"/services/*/groups/0", "11", ""},
	{"/services/*/roles/0", "11", ""},
	{"/roles/node/allow/0", "7", ""},
	{"/roles/operator/allow/0", "7", ""},
	{"/roles/*/allow/*", "11", ""},
	{"/users/*/roles/*", "2", ""},
	{"/users/*/nodes/0/at", "2", ""},
	{"*", "1", "a word where the schema wants something else"},
}

func (m mutation) matches(path string) bool {
	if m.pattern == "*" {
		return true
	}
	want, got := strings.Split(m.pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == "*" || w == g })
}

func expect(t *testing.T, what, path string, table []mutation, repo fs.FS) {
	t.Helper()
	i := slices.IndexFunc(table, func(m mutation) bool { return m.matches(path) })
	require.GreaterOrEqual(t, i, 0, "%s %s: nobody said what must follow", what, path)
	m, got := table[i], brokenRules(repo)
	if m.rules == "ok" {
		require.NotEmpty(t, m.why)
		require.Empty(t, got, "%s %s validates: %s", what, path, m.why)
		return
	}
	require.True(t, slices.ContainsFunc(strings.Fields(m.rules), func(r string) bool { return slices.Contains(got, r) }),
		"%s %s breaks %v, want one of %s", what, path, got, m.rules)
}

func TestEveryMutationOfOneFieldIsNamedByItsRule(t *testing.T) {
	gen.Unraced()
	example := reterepo.Example()
	require.Empty(t, brokenRules(example))
	n := 0
	for file := range example {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		var root yaml.Node
		require.NoError(t, yaml.Unmarshal(example[file].Data, &root))
		for i, f := range fieldsOf(file, "", &root) {
			if file == "services/teams.yaml" && f.path == "/services" {
				continue // the other file has services too
			}
			expect(t, "without "+file, f.path, removed, mutated(example, file, i, func(f field) { f.drop() }))
			n++
			if f.node.Kind == yaml.ScalarNode && f.node.ShortTag() != "!!null" {
				expect(t, "another word in "+file, f.path, replaced, mutated(example, file, i, func(f field) { f.node.Value, f.node.Tag = "elsewhere", "!!str" }))
				n++
			}
			// A field of the wrong kind is always a breach of the schema.
			wrong := mutated(example, file, i, func(f field) {
				*f.node = yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{{Kind: yaml.SequenceNode}}}
			})
			require.Equal(t, []string{"1"}, brokenRules(wrong), "a list of lists at %s %s", file, f.path)
			n++
		}
	}
	t.Logf("%d mutations", n)
	require.Greater(t, n, 200)
}

// TestWithoutEgressTheTargetStillRefuses holds the specification's word that
// egress is advisory: what a target lets in is in its own artifact, row by row,
// whatever an initiator's says.
func TestWithoutEgressTheTargetStillRefuses(t *testing.T) {
	w := newReading(t, reterepo.Example())
	ingress := w.ingress()
	for node := range w.vertices {
		for i := range w.vertices[node] {
			w.vertices[node][i].Egress, w.vertices[node][i].Links = nil, nil
		}
	}
	require.Equal(t, ingress, w.ingress())
	require.True(t, ingress[pair("user/bob", "service/alpha/ssh")])
	require.False(t, ingress[pair("user/alice", "service/alpha/ssh")], "alice was never granted it")
	require.False(t, ingress[pair("user/alice", "service/mongodb")])
}
