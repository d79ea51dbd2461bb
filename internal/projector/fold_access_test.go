package projector

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

func person(event int, id, name string, expected ...uint64) policy.PrincipalUpdated {
	e := policy.PrincipalUpdated{ID: evt(event), Principal: policy.PrincipalID(id), CreatedBy: "root", Document: policy.Principal{Kind: policy.Person, DisplayName: name}}
	if len(expected) > 0 {
		e.Expected = &expected[0]
	}
	return e
}

func removed(event int, id string) policy.PrincipalRemoved {
	return policy.PrincipalRemoved{ID: evt(event), Principal: policy.PrincipalID(id), CreatedBy: "root"}
}

func related(text string) policy.Relation {
	r, err := policy.ParseRelation(text)
	if err != nil {
		panic(err)
	}
	return r
}

func granted(event int, id, relation string) policy.RelationWritten {
	return policy.RelationWritten{ID: evt(event), Principal: policy.PrincipalID(id), CreatedBy: "root", Relation: related(relation)}
}

func revoked(event int, id, relation string) policy.RelationRemoved {
	return policy.RelationRemoved{ID: evt(event), Principal: policy.PrincipalID(id), CreatedBy: "root", Relation: related(relation)}
}

func TestTheFoldJudgesPrincipalsAndRelations(t *testing.T) {
	gen.Unraced()
	type step struct {
		event policy.Event
		want  string
	}
	for name, steps := range map[string][]step{
		"a version that moved on is a conflict": {
			{person(1, "a", "x", 0), "applied"},
			{person(2, "a", "y", 0), CodeRevisionConflict},
			{person(3, "a", "y", 1), "applied"},
			{person(4, "a", "z", 1), CodeRevisionConflict},
			{person(5, "b", "z", 3), CodeRevisionConflict},
		},
		"relations do not move a principal's version": {
			{person(1, "a", "x"), "applied"},
			{granted(2, "a", "plane#read"), "applied"},
			{person(3, "a", "y", 1), "applied"},
		},
		"a relation is had once": {
			{granted(1, "a", "plane#read"), "applied"},
			{granted(2, "a", "plane#read"), "duplicate"},
			{revoked(3, "a", "plane#admin"), "duplicate"},
			{revoked(4, "a", "plane#read"), "applied"},
			{revoked(5, "a", "plane#read"), "duplicate"},
		},
		"a grant met again does not give back what was taken": {
			{granted(1, "a", "plane#admin"), "applied"},
			{revoked(2, "a", "plane#admin"), "applied"},
			{granted(1, "a", "plane#admin"), "duplicate"},
			{granted(3, "a", "plane#admin"), "applied"},
		},
		"a grant that changed nothing gives nothing back either": {
			{granted(1, "a", "plane#admin"), "applied"},
			{granted(2, "a", "plane#admin"), "duplicate"},
			{revoked(3, "a", "plane#admin"), "applied"},
			{granted(2, "a", "plane#admin"), "duplicate"},
			{granted(4, "a", "plane#admin"), "applied"},
		},
		"who was removed does not come back by an old event": {
			{person(1, "a", "x"), "applied"},
			{removed(2, "a"), "applied"},
			{person(1, "a", "x"), "duplicate"},
			{removed(3, "a"), "duplicate"},
			{person(4, "a", "x", 0), "applied"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, j := openFresh(t), &journal{}
			for i, s := range steps {
				require.Equal(t, s.want, verdict(t, p, j.add(s.event)), "step %d", i)
			}
		})
	}
}

func TestWhoComesAfterOneThatWasRemovedInheritsNothing(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for _, e := range []policy.Event{person(1, "a", "x"), granted(2, "a", "plane#admin"), removed(3, "a"), person(4, "a", "y")} {
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
	}
	p.Read(func(v *View) {
		a, ok := v.Principal("a")
		require.True(t, ok)
		require.Empty(t, a.Relations)
	})
}

// TestAccessEqualsTheOracle folds random events in random batches, with restarts
// between, and holds principals, relations, what a follower hears and the digest
// against a map and a store that saw the log in one go.
func TestAccessEqualsTheOracle(t *testing.T) {
	gen.Unraced()
	all := []string{"plane#admin", "plane#read", "node:n1#agent", "node:" + tenant(1).String() + "/n1#agent", "project:" + tenant(1).String() + "#operator"}
	ids := []string{"a", "a-b", "b"}
	rapid.Check(t, func(rt *rapid.T) {
		names, relations := map[string]string{}, map[string]map[string]bool{}
		seen := map[string]bool{}
		j := &journal{}
		n := rapid.IntRange(1, 50).Draw(rt, "events")
		for range n {
			number, id := rapid.IntRange(1, 40).Draw(rt, "event"), rapid.SampledFrom(ids).Draw(rt, "id")
			key := fmt.Sprint(id, number)
			relation := rapid.SampledFrom(all).Draw(rt, "relation")
			if relations[id] == nil {
				relations[id] = map[string]bool{}
			}
			var e policy.Event
			switch rapid.IntRange(0, 4).Draw(rt, "kind") {
			case 0:
				name := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "name")
				if e = person(number, id, name); !seen[key] {
					names[id] = name
				}
			case 1:
				if e = removed(number, id); !seen[key] {
					delete(names, id)
					clear(relations[id])
				}
			case 2:
				if e = revoked(number, id, relation); !seen[key] {
					delete(relations[id], relation)
					if relation == "node:n1#agent" { // whichever project's
						delete(relations[id], all[3])
					}
				}
			default:
				if e = granted(number, id, relation); !seen[key] {
					relations[id][relation] = true
				}
			}
			seen[key] = true
			j.add(e)
		}
		d := newDisk()
		p := d.open(rt)
		defer func() { require.NoError(rt, p.Close()) }()
		heard, from := map[policy.PrincipalID]Principal{}, uint64(0)
		for at := 0; at < n; {
			to := rapid.IntRange(at+1, min(at+20, n)).Draw(rt, "to")
			require.NoError(rt, p.Apply(j.msgs[at:to]))
			at = to
			if rapid.Bool().Draw(rt, "restart") {
				require.NoError(rt, p.Close())
				p = d.open(rt)
			}
			p.Read(func(v *View) {
				changed, last := v.AccessSince(from)
				for _, c := range changed {
					heard[c.ID] = c
				}
				require.Equal(rt, last, p.AccessVersion())
				from = last
			})
		}
		p.Read(func(v *View) {
			for _, id := range ids {
				var want []string
				for r := range relations[id] {
					want = append(want, r)
				}
				slices.Sort(want)
				got, ok := v.Principal(policy.PrincipalID(id))
				require.Equal(rt, names[id] != "" || len(want) > 0, ok)
				if !ok {
					require.Nil(rt, heard[policy.PrincipalID(id)].Document)
					continue
				}
				require.Equal(rt, got, heard[policy.PrincipalID(id)])
				var have []string
				for _, g := range got.Relations {
					have = append(have, g.Relation.String())
				}
				require.Equal(rt, want, have)
				if names[id] == "" {
					require.Nil(rt, got.Document)
				} else {
					require.Equal(rt, names[id], got.Document.DisplayName)
				}
			}
		})
		whole := newDisk().open(rt)
		defer func() { require.NoError(rt, whole.Close()) }()
		require.NoError(rt, whole.Apply(j.msgs))
		a, err := p.Digest(context.Background())
		require.NoError(rt, err)
		b, err := whole.Digest(context.Background())
		require.NoError(rt, err)
		require.Equal(rt, a, b)
	})
}

// TestARelationIsWrittenByItself: an event of one writes no other relation of its principal,
// of which there may be as many as nodes.
func TestARelationIsWrittenByItself(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	defer func() { require.NoError(t, p.Close()) }()
	relation := func(n int) string { return fmt.Sprintf("node:%s/n%03d#agent", tenant(1), n) }
	writes := func(e policy.Event) int {
		t.Helper()
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
		return p.writes.size()
	}
	few := writes(granted(1, "a", relation(0)))
	for n := 1; n < 300; n++ {
		require.Less(t, writes(granted(n+1, "a", relation(n))), few+100, n)
	}
	require.Less(t, writes(revoked(400, "a", relation(7))), few+100)
	require.Less(t, writes(person(401, "a", "x")), few+100)
	require.NoError(t, p.Close())
	p = d.open(t)
	p.Read(func(v *View) {
		a, ok := v.Principal("a")
		require.True(t, ok)
		require.Len(t, a.Relations, 299)
		require.Equal(t, relation(8), a.Relations[7].Relation.String())
		require.Equal(t, uint64(9), a.Relations[7].Seq)
	})
	require.Equal(t, "applied", verdict(t, p, j.add(removed(402, "a"))))
	require.Zero(t, count(t, p, keyRelation))
}

func TestTheDigestCoversAccess(t *testing.T) {
	sums := map[[32]byte]bool{}
	for _, e := range []policy.Event{person(1, "a", "x"), person(1, "a", "y"), granted(1, "a", "plane#read"), granted(1, "a", "plane#admin"), removed(1, "a")} {
		p, j := openFresh(t), &journal{}
		verdict(t, p, j.add(e))
		d, err := p.Digest(t.Context())
		require.NoError(t, err)
		sums[d.Sum] = true
	}
	require.Len(t, sums, 5)
}

// A relation is there no later than what follows it in the log: one batch holds
// both, and whoever sees the later sees the earlier.
func TestARelationIsVisibleWithTheRowsOfItsBatch(t *testing.T) {
	p, j := openFresh(t), &journal{}
	require.NoError(t, p.Apply([]streams.Message{
		j.add(update(t, 1, 1, "a")), j.add(granted(2, "ana", "policy:"+uuid.UUID(pol(1)).String()+"#read")), j.add(update(t, 3, 2, "b")),
	}))
	p.Read(func(v *View) {
		require.Equal(t, uint64(3), v.Seq())
		a, ok := v.Principal("ana")
		require.True(t, ok)
		require.Equal(t, uint64(2), a.Relations[0].Seq)
	})
	require.Equal(t, uint64(2), p.AccessVersion())
}

// A relation of before names a node and no project. Log order says whose node
// it means; one that was nobody's then is never anybody's.
func TestARelationToANodeIsBoundToTheProjectThatHasIt(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	defer func() { require.NoError(t, p.Close()) }()
	relations := func(id policy.PrincipalID) (all []string) {
		p.Read(func(v *View) {
			who, _ := v.Principal(id)
			for _, g := range who.Relations {
				all = append(all, g.Relation.String())
			}
		})
		return all
	}
	one, two := "node:"+tenant(1).String(), "node:"+tenant(2).String()
	fold := func(want string, e policy.Event) {
		t.Helper()
		require.Equal(t, want, verdict(t, p, j.add(e)))
	}
	fold("applied", granted(1, "a", "node:n#agent"))
	fold("applied", update(t, 2, 2, "n"))
	require.Equal(t, []string{"node:n#agent"}, relations("a"), "nobody had the node")
	fold("applied", granted(3, "a", "node:n#agent"))
	require.Equal(t, []string{two + "/n#agent", "node:n#agent"}, relations("a"), "written anew")
	fold("duplicate", granted(4, "a", "node:n#agent"))
	fold("applied", granted(5, "a", one+"/n#agent"))
	require.Equal(t, []string{one + "/n#agent", two + "/n#agent", "node:n#agent"}, relations("a"))
	fold("applied", revoked(6, "a", two+"/n#agent"))
	fold("duplicate", revoked(7, "a", two+"/n#agent"))
	require.Equal(t, []string{one + "/n#agent", "node:n#agent"}, relations("a"))
	require.NoError(t, p.Close())
	p = d.open(t)
	require.Equal(t, []string{one + "/n#agent", "node:n#agent"}, relations("a"), "as it was stored")
	fold("applied", revoked(8, "a", "node:n#agent"))
	require.Empty(t, relations("a"), "whichever project's")
}
