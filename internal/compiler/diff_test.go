package compiler_test

import (
	"testing"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCompare(t *testing.T) {
	web := "allow tcp 10.0.0.0/8 10.1.0.0/16 80-80"
	webDeny := "deny tcp 10.0.0.0/8 10.1.0.0/16 80-80"
	webLog := "log tcp 10.0.0.0/8 10.1.0.0/16 80-80"
	db := "allow tcp 10.0.0.0/8 10.1.0.0/16 5432-5432"
	cases := []struct {
		name           string
		from, to       []policy.Rule
		added, removed []policy.Rule
		modified       [][2]string
	}{
		{name: "another order is no change", from: rules(web, db), to: rules(db, web)},
		{name: "said twice is no change", from: rules(web), to: rules(web, web)},
		{name: "a new key is added", from: rules(web), to: rules(web, db), added: rules(db)},
		{name: "a missing key is removed", from: rules(web, db), to: rules(db), removed: rules(web)},
		{name: "another action is a modification", from: rules(web), to: rules(webDeny), modified: [][2]string{{web, webDeny}}},
		{name: "another port is another key", from: rules(web), to: rules(db), added: rules(db), removed: rules(web)},
		{name: "a second action of a kept key is added", from: rules(web), to: rules(web, webDeny), added: rules(webDeny)},
		{
			name: "of two actions the one that stays is not touched", from: rules(web, webDeny), to: rules(webDeny, webLog),
			modified: [][2]string{{web, webLog}},
		},
		{
			name: "two actions that become one", from: rules(web, webDeny), to: rules(webLog),
			modified: [][2]string{{web, webLog}}, removed: rules(webDeny),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := compiler.Compare(c.from, c.to)
			require.Equal(t, c.added, d.Added)
			require.Equal(t, c.removed, d.Removed)
			var modified []compiler.Modified
			for _, m := range c.modified {
				modified = append(modified, compiler.Modified{Before: rule(m[0]), After: rule(m[1])})
			}
			require.Equal(t, modified, d.Modified)
		})
	}
}

// A diff applied to the old rules gives the new ones, and does not depend on
// the order either was written in.
func TestCompareIsAPatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := anyRules(t), anyRules(t)
		d := compiler.Compare(from, to)
		set := map[policy.Rule]bool{}
		for _, r := range from {
			set[r] = true
		}
		drop := func(r policy.Rule) {
			if !set[r] {
				t.Fatalf("%v is not there to remove", r)
			}
			delete(set, r)
		}
		for _, r := range d.Removed {
			drop(r)
		}
		for _, m := range d.Modified {
			a, b := m.Before, m.After
			if a == b {
				t.Fatalf("not modified: %v", a)
			}
			a.Action, a.ProxyPort, a.ListenerPriority, a.Auth = b.Action, b.ProxyPort, b.ListenerPriority, b.Auth
			if a != b {
				t.Fatalf("modified in what it matches: %v", m)
			}
			drop(m.Before)
		}
		add := func(r policy.Rule) {
			if set[r] {
				t.Fatalf("%v is there already", r)
			}
			set[r] = true
		}
		for _, m := range d.Modified {
			add(m.After)
		}
		for _, r := range d.Added {
			add(r)
		}
		want := map[policy.Rule]bool{}
		for _, r := range to {
			want[r] = true
		}
		require.Equal(t, want, set)
		shuffled := compiler.Compare(rapid.Permutation(from).Draw(t, "from"), rapid.Permutation(to).Draw(t, "to"))
		require.Equal(t, d, shuffled)
		require.Equal(t, len(d.Added)+len(d.Removed)+len(d.Modified) == 0, d.Empty())
	})
}
