package rete_test

import (
	"encoding/json"
	"maps"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// named is the example with a group that ssh alone is in and nobody is granted, and
// a role that eve alone has and that grants nothing. Beside them stand a service
// in two groups and a user with two roles, whose lists the names may resemble.
func named(group, role string) fstest.MapFS {
	quote := func(s string) string {
		text, err := json.Marshal(s) // YAML reads what JSON writes
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	repo := maps.Clone(reterepo.Example())
	put := func(file, text string) { repo[file] = &fstest.MapFile{Data: []byte(text)} }
	put("services/teams.yaml", `services:
  mongodb: { at: beta, addr: "127.0.0.1:27017", groups: [db, admin] }
  ssh: { at: alpha, scope: node, addr: "0.0.0.0:22", groups: [`+quote(group)+`] }
`)
	put("access.yaml", `groups: { config-read: , config-write: , db: , admin: , ? `+quote(group)+` : }
roles:
  node:      { allow: [config-read] }
  operator:  { allow: [config-write] }
  developer: { allow: [db] }
  devops:    { allow: [admin] }
  ? `+quote(role)+`
  : { allow: [] }
`)
	put("users.yaml", `users:
  alice: { roles: [developer, devops], nodes: [ { at: alice-laptop } ] }
  bob:   { roles: [operator], nodes: [ { at: mgmt } ] }
  eve:   { roles: [`+quote(role)+`], nodes: [ { at: beta } ] }
`)
	reterepo.Enroll(repo)
	return repo
}

func TestNamesOfGroupsAndRolesAreLabels(t *testing.T) {
	gen.Unraced()
	require.Empty(t, brokenRules(named("db-admin", "dev-ops")))
	for _, bad := range []string{"db\x00admin", "W e/b\n", "Db", "-db", "db_admin", "\u202edb"} {
		require.Equal(t, []string{"3"}, brokenRules(named(bad, "dev-ops")), "%q", bad)
		require.Equal(t, []string{"3"}, brokenRules(named("db-admin", bad)), "%q", bad)
	}
}

// FuzzNames gives a group and a role any names: where the repository is valid, its
// artifacts let in exactly whom a slow reader of the YAML would.
func FuzzNames(f *testing.F) {
	for _, s := range [][2]string{
		{"web", "reader"},
		{"db\x00admin", "developer\x00devops"},
		{"db,admin", "developer,devops"},
		{"db admin", "developer devops"},
		{"dbadmin", "developerdevops"},
		{"2db5admin", "9developer6devops"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, group, role string) {
		repo := named(group, role)
		if len(brokenRules(repo)) > 0 {
			return
		}
		newReading(t, repo).checkLocality(t)
	})
}

// Lists of names share what was computed for them only where they are equal,
// whatever the names are.
func FuzzKeysOfLists(f *testing.F) {
	f.Add("a", "b", "a\x00b")
	f.Add("a", "", "a")
	f.Add("1", "2", "12")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		lists := [][]string{{a}, {b}, {c}, {a, b}, {b, c}, {a, b, c}, {a + b}, {a + b, c}, {a, b + c}, {}, {a, ""}, {"", a}}
		for i, x := range lists {
			for _, y := range lists[i+1:] {
				same := len(x) == len(y)
				for k := range min(len(x), len(y)) {
					same = same && x[k] == y[k]
				}
				if got := rete.ListKey(x) == rete.ListKey(y); got != same {
					t.Fatalf("%q and %q: one key %v, want %v", x, y, got, same)
				}
			}
		}
	})
}
