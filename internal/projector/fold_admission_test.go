package projector

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

func admitted(event int, id, name string, priority int32, change ...func(*policy.AdmissionPolicyUpdated)) policy.AdmissionPolicyUpdated {
	e := policy.AdmissionPolicyUpdated{ID: evt(event), Policy: policy.AdmissionPolicyID(id), Document: policy.AdmissionPolicy{
		Name: name, Level: policy.Global, Priority: priority, Mode: policy.Enforce, Rego: "package a\n",
	}}
	for _, f := range change {
		f(&e)
	}
	return e
}

func owned(level policy.Level, tenant, user string) func(*policy.AdmissionPolicyUpdated) {
	return func(e *policy.AdmissionPolicyUpdated) {
		e.Document.Level, e.Document.Tenant, e.Document.User = level, tenant, user
	}
}

func expecting(seq uint64) func(*policy.AdmissionPolicyUpdated) {
	return func(e *policy.AdmissionPolicyUpdated) { e.Expected = &seq }
}

func ended(event int, id string, expected ...uint64) policy.AdmissionPolicyDeleted {
	e := policy.AdmissionPolicyDeleted{ID: evt(event), Policy: policy.AdmissionPolicyID(id)}
	if len(expected) > 0 {
		e.Expected = &expected[0]
	}
	return e
}

func TestTheFoldJudgesAdmissionPolicies(t *testing.T) {
	gen.Unraced()
	type step struct {
		event policy.Event
		want  string
	}
	for name, steps := range map[string][]step{
		"a name is one policy's at its level": {
			{admitted(1, "a", "n", 1), "applied"},
			{admitted(2, "b", "n", 2), CodeNameTaken},
			{admitted(3, "b", "n", 2, owned(policy.User, "", "")), "applied"},
		},
		"a priority is one policy's at its level": {
			{admitted(1, "a", "n", 1), "applied"},
			{admitted(2, "b", "m", 1), CodePriorityTaken},
			{admitted(3, "b", "m", 1, owned(policy.Tenant, "", "")), "applied"},
		},
		"at Tenant they are one policy's of the tenant": {
			{admitted(1, "a", "n", 1, owned(policy.Tenant, "acme", "")), "applied"},
			{admitted(2, "b", "n", 1, owned(policy.Tenant, "other", "")), "applied"},
			{admitted(3, "c", "n", 1, owned(policy.Tenant, "", "")), "applied"},
			{admitted(4, "d", "n", 2, owned(policy.Tenant, "acme", "")), CodeNameTaken},
			{admitted(5, "d", "m", 1, owned(policy.Tenant, "acme", "")), CodePriorityTaken},
		},
		"at User they are one policy's of the user, whatever the tenant": {
			{admitted(1, "a", "n", 1, owned(policy.User, "acme", "ana")), "applied"},
			{admitted(2, "b", "n", 1, owned(policy.User, "acme", "bob")), "applied"},
			{admitted(3, "c", "n", 2, owned(policy.User, "other", "ana")), CodeNameTaken},
			{admitted(4, "c", "m", 1, owned(policy.User, "", "ana")), CodePriorityTaken},
		},
		"a policy does not collide with itself": {
			{admitted(1, "a", "n", 1), "applied"},
			{admitted(2, "a", "n", 1), "applied"},
			{admitted(3, "a", "m", 1), "applied"},
			{admitted(4, "a", "m", 2), "applied"},
		},
		"what a policy left is free": {
			{admitted(1, "a", "n", 1), "applied"},
			{admitted(2, "a", "m", 2), "applied"},
			{admitted(3, "b", "n", 1), "applied"},
			{admitted(4, "a", "n", 2), CodeNameTaken},
		},
		"a disabled policy keeps its name": {
			{admitted(1, "a", "n", 1, func(e *policy.AdmissionPolicyUpdated) { e.Document.Disabled = true }), "applied"},
			{admitted(2, "b", "n", 2), CodeNameTaken},
		},
		"what a deleted policy had is free, its id too": {
			{admitted(1, "a", "n", 1), "applied"},
			{ended(2, "a"), "applied"},
			{admitted(3, "b", "n", 1), "applied"},
			{admitted(4, "a", "m", 2, expecting(0)), "applied"},
		},
		"a rejected change leaves everything as it was": {
			{admitted(1, "a", "n", 1), "applied"},
			{admitted(2, "b", "m", 2), "applied"},
			{admitted(3, "b", "free", 1), CodePriorityTaken},
			{admitted(4, "c", "free", 3), "applied"},
			{admitted(5, "d", "m", 4), CodeNameTaken},
		},
		"a change names the version it saw": {
			{admitted(1, "a", "n", 1, expecting(0)), "applied"},
			{admitted(2, "a", "n", 2, expecting(1)), "applied"},
			{admitted(3, "a", "n", 3, expecting(1)), CodeRevisionConflict},
			{admitted(4, "a", "n", 3, expecting(0)), CodePolicyIDUsed},
			{admitted(5, "b", "m", 9, expecting(2)), CodeRevisionConflict},
			{ended(6, "a", 1), CodeRevisionConflict},
			{ended(7, "a", 2), "applied"},
			{admitted(8, "a", "n", 3, expecting(2)), CodeRevisionConflict},
		},
		"the event of the present facts is a duplicate, an older one stale": {
			{admitted(1, "a", "n", 1), "applied"},
			{admitted(1, "a", "other", 1), "duplicate"},
			{admitted(2, "a", "n", 2), "applied"},
			{admitted(1, "a", "n", 1), CodeStaleEvent},
			{ended(3, "a"), "applied"},
			{admitted(2, "a", "n", 2), CodeStaleEvent},
			{ended(3, "a"), "duplicate"},
		},
		"a creation met again does not bring a deleted policy back": {
			{admitted(1, "a", "n", 1, expecting(0)), "applied"},
			{ended(2, "a"), "applied"},
			{admitted(1, "a", "n", 1, expecting(0)), CodeStaleEvent},
		},
		"deleting what is gone changes nothing": {
			{ended(1, "a"), "duplicate"},
			{admitted(2, "a", "n", 1), "applied"},
			{ended(1, "a"), CodeStaleEvent},
			{ended(3, "a"), "applied"},
			{ended(4, "a"), "duplicate"},
			{ended(4, "a", 7), "duplicate"},
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

func TestAnAdmissionEventIsHeldAgainstItsSubject(t *testing.T) {
	p, j := openFresh(t), &journal{}
	body := policy.Append(nil, admitted(1, "a", "n", 1))
	for subject, want := range map[string]string{
		"edict.log.admission.b": CodeSubjectMismatch,
		"edict.log." + tenant(1).String() + ".policy." + pol(1).String(): CodeSubjectMismatch,
		"edict.log.admission.a.b": CodeSubjectMismatch,
	} {
		require.Equal(t, want, verdict(t, p, j.raw(subject, body)), subject)
	}
	node := policy.Append(nil, update(t, 2, 1, "a"))
	require.Equal(t, CodeSubjectMismatch, verdict(t, p, j.raw("edict.log.admission.a", node)))
	require.Equal(t, "applied", verdict(t, p, j.raw("edict.log.admission.a", body)))
}

// admissionOracle is an honest fool: it looks at every policy for every event.
type admissionOracle struct {
	have map[string]policy.AdmissionPolicyUpdated
	at   map[string]uint64
	seen map[string]bool // id and event
	last map[string]int  // the event of an id's present facts
}

func (o *admissionOracle) judge(e policy.Event, number int, seq uint64) string {
	switch e := e.(type) {
	case policy.AdmissionPolicyUpdated:
		id, key := string(e.Policy), fmt.Sprint(e.Policy, " ", number)
		_, live := o.have[id]
		switch {
		case o.last[id] == number:
			return "duplicate"
		case o.seen[key]:
			return CodeStaleEvent
		case e.Expected != nil && *e.Expected == 0 && live:
			return CodePolicyIDUsed
		case e.Expected != nil && *e.Expected > 0 && (!live || o.at[id] != *e.Expected):
			return CodeRevisionConflict
		}
		for _, code := range []string{CodeNameTaken, CodePriorityTaken} {
			for other, x := range o.have {
				a, b := x.Document, e.Document
				if other == id || a.Level != b.Level || a.Level == policy.Tenant && a.Tenant != b.Tenant || a.Level == policy.User && a.User != b.User {
					continue
				}
				if code == CodeNameTaken && a.Name == b.Name || code == CodePriorityTaken && a.Priority == b.Priority {
					return code
				}
			}
		}
		o.have[id], o.at[id], o.last[id], o.seen[key] = e, seq, number, true
	case policy.AdmissionPolicyDeleted:
		id, key := string(e.Policy), fmt.Sprint(e.Policy, " ", number)
		_, live := o.have[id]
		switch {
		case o.last[id] == number:
			return "duplicate"
		case !live:
			o.seen[key] = true
			return "duplicate"
		case o.seen[key]:
			return CodeStaleEvent
		case e.Expected != nil && o.at[id] != *e.Expected:
			return CodeRevisionConflict
		}
		delete(o.have, id)
		o.last[id], o.seen[key] = number, true
	}
	return "applied"
}

// TestAdmissionPoliciesEqualTheOracle folds random events in random batches,
// with repeats of events and of batches and restarts between, and holds every
// verdict, the facts, what a follower hears and the digest against the oracle
// and a store that saw the log in one go.
func TestAdmissionPoliciesEqualTheOracle(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(rt *rapid.T) {
		o := &admissionOracle{map[string]policy.AdmissionPolicyUpdated{}, map[string]uint64{}, map[string]bool{}, map[string]int{}}
		j := &journal{}
		n := rapid.IntRange(1, 60).Draw(rt, "events")
		var want []string
		for seq := uint64(1); seq <= uint64(n); seq++ {
			number := rapid.IntRange(1, 40).Draw(rt, "event")
			e := drawAdmission(rt, number, seq)
			j.add(e)
			want = append(want, o.judge(e, number, seq))
		}
		d := newDisk()
		p := d.open(rt)
		defer func() { require.NoError(rt, p.Close()) }()
		heard, from, at := map[policy.AdmissionPolicyID]string{}, uint64(0), 0
		for at < n {
			back := rapid.IntRange(0, at).Draw(rt, "repeat from")
			to := rapid.IntRange(at+1, min(at+20, n)).Draw(rt, "to")
			require.NoError(rt, p.Apply(j.msgs[back:to]))
			for ; at < to; at++ {
				v, err := p.Verdict(context.Background(), uint64(at+1))
				require.NoError(rt, err)
				require.Equal(rt, want[at], word(v), "event %d", at+1)
			}
			if rapid.Bool().Draw(rt, "restart") {
				require.NoError(rt, p.Close())
				p = d.open(rt)
			}
			p.Read(func(v *View) {
				changed, last := v.Admission().Since(from)
				for _, c := range changed {
					heard[c.ID] = ""
					if c.Document != nil {
						heard[c.ID] = string(policy.AppendAdmissionPolicy(nil, *c.Document))
					}
				}
				from = max(from, last)
			})
			require.LessOrEqual(rt, p.AdmissionVersion(), uint64(at))
		}
		for id, document := range heard {
			if e, ok := o.have[string(id)]; ok {
				require.Equal(rt, string(policy.AppendAdmissionPolicy(nil, e.Document)), document)
			} else {
				require.Empty(rt, document)
			}
		}
		p.Read(func(v *View) {
			for id, e := range o.have {
				got, ok := v.Admission().Policy(policy.AdmissionPolicyID(id))
				require.True(rt, ok)
				require.Equal(rt, o.at[id], got.Version)
				require.True(rt, e.Document.Equal(*got.Document))
				name, priority := v.Admission().Holders(e.Document)
				require.Equal(rt, []policy.AdmissionPolicyID{got.ID, got.ID}, []policy.AdmissionPolicyID{name, priority})
			}
			require.Equal(rt, len(o.have), v.Counts().AdmissionPolicies)
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

func drawAdmission(t *rapid.T, number int, seq uint64) policy.Event {
	id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id")
	var expected *uint64
	if rapid.Bool().Draw(t, "expects") {
		n := rapid.Uint64Range(0, seq).Draw(t, "expected")
		expected = &n
	}
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		return policy.AdmissionPolicyDeleted{ID: evt(number), Policy: policy.AdmissionPolicyID(id), Expected: expected}
	}
	e := admitted(number, id, rapid.SampledFrom([]string{"n", "m", "o"}).Draw(t, "name"), rapid.Int32Range(1, 3).Draw(t, "priority"))
	e.Expected, e.Document.Level = expected, rapid.SampledFrom(policy.Levels).Draw(t, "level")
	if e.Document.Level != policy.Global {
		e.Document.Tenant = rapid.SampledFrom([]string{"", "acme"}).Draw(t, "tenant")
	}
	if e.Document.Level == policy.User {
		e.Document.User = rapid.SampledFrom([]string{"", "ana"}).Draw(t, "user")
	}
	return e
}

func TestTheDigestCoversAdmissionPolicies(t *testing.T) {
	sums := map[[32]byte]bool{}
	for _, e := range []policy.Event{admitted(1, "a", "n", 1), admitted(1, "a", "n", 2), ended(1, "a")} {
		p, j := openFresh(t), &journal{}
		verdict(t, p, j.add(e))
		d, err := p.Digest(t.Context())
		require.NoError(t, err)
		sums[d.Sum] = true
	}
	require.Len(t, sums, 3)
}

func TestTheListOfAdmissionChangesDoesNotGrowForEver(t *testing.T) {
	gen.Unraced()
	p, j := openFresh(t), &journal{}
	for i := range 400 {
		require.Equal(t, "applied", verdict(t, p, j.add(admitted(i+1, fmt.Sprintf("p%d", i%4), fmt.Sprint("n", i), int32(i)))))
	}
	require.Less(t, len(p.state.admission.changes), 100)
	p.Read(func(v *View) {
		changed, last := v.Admission().Since(0)
		require.Len(t, changed, 4)
		require.True(t, slices.IsSortedFunc(changed, func(a, b AdmissionPolicy) int { return int(a.Version) - int(b.Version) }))
		require.Equal(t, uint64(400), last)
		changed, _ = v.Admission().Since(399)
		require.Len(t, changed, 1)
	})
}
