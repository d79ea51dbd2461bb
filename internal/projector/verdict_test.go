package projector

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

func TestTheFoldIsTheJudge(t *testing.T) {
	gen.Unraced()
	type step struct {
		event policy.Event
		want  string
	}
	web := func(e, r, parent int, port ...int) policy.Event {
		return revise(t, e, 1, 1, r, parent, "web", "role=web", append(port, 80)...)
	}
	for name, steps := range map[string][]step{
		"a first revision has no parent": {
			{web(1, 1, 0), "applied"},
		},
		"a revision follows the head it names": {
			{web(1, 1, 0), "applied"}, {web(2, 2, 1), "applied"}, {web(3, 3, 2), "applied"},
		},
		"a revision of an older head conflicts": {
			{web(1, 1, 0), "applied"}, {web(2, 2, 1), "applied"}, {web(3, 3, 1), CodeRevisionConflict},
		},
		"a parent nobody has seen conflicts": {
			{web(1, 1, 9), CodeRevisionConflict},
		},
		"a policy id in use cannot be created again": {
			{web(1, 1, 0), "applied"}, {web(2, 2, 0), CodePolicyIDUsed},
		},
		"a deleted id stays used": {
			{web(1, 1, 0), "applied"},
			{remove(2, 1, 1), "applied"},
			{web(3, 2, 0), CodePolicyIDUsed},
			{web(4, 3, 1), CodeRevisionConflict},
		},
		"a revision met again is a duplicate whatever has happened since": {
			{web(1, 1, 0), "applied"},
			{web(2, 2, 1), "applied"},
			{web(7, 1, 0), "duplicate"},
			{remove(3, 1, 1), "applied"},
			{web(2, 2, 1), "duplicate"},
		},
		"deleting what is gone changes nothing": {
			{remove(1, 1, 1), "duplicate"},
			{web(2, 1, 0), "applied"},
			{remove(3, 1, 1), "applied"},
			{remove(4, 1, 1), "duplicate"},
		},
		"a slug is one policy's in its project": {
			{web(1, 1, 0), "applied"},
			{revise(t, 2, 1, 2, 2, 0, "web", "role=db", 80), CodePolicySlugTaken},
			{revise(t, 3, 2, 3, 3, 0, "web", "role=db", 80), "applied"},
		},
		"a deleted policy's slug is free": {
			{web(1, 1, 0), "applied"},
			{remove(2, 1, 1), "applied"},
			{revise(t, 3, 1, 2, 2, 0, "web", "role=db", 80), "applied"},
		},
		"a slug that was left is free": {
			{web(1, 1, 0), "applied"},
			{revise(t, 2, 1, 1, 2, 1, "www", "role=web", 80), "applied"},
			{revise(t, 3, 1, 2, 3, 0, "web", "role=db", 80), "applied"},
			{revise(t, 4, 1, 1, 4, 2, "web", "role=web", 80), CodePolicySlugTaken},
		},
		"a policy id belongs to the project that named it first": {
			{web(1, 1, 0), "applied"},
			{revise(t, 2, 2, 1, 2, 1, "web", "role=web", 80), CodePolicyNotOwned},
			{remove(3, 2, 1), CodePolicyNotOwned},
		},
		"a node id belongs to the project that named it first, even when removed": {
			{update(t, 1, 1, "a"), "applied"},
			{update(t, 2, 2, "a"), CodeNodeIDTaken},
			{leave(3, 2, "a"), CodeNodeIDTaken},
			{leave(4, 1, "a"), "applied"},
			{update(t, 5, 2, "a"), CodeNodeIDTaken},
		},
		"the event that gave a node its facts is a duplicate": {
			{update(t, 1, 1, "a", "k", "v"), "applied"}, {update(t, 1, 1, "a", "k", "other"), "duplicate"},
		},
		"an older node event met again is stale": {
			{update(t, 1, 1, "a", "k", "v"), "applied"},
			{update(t, 2, 1, "a", "k", "w"), "applied"},
			{update(t, 1, 1, "a", "k", "v"), CodeStaleEvent},
			{leave(3, 1, "a"), "applied"},
			{update(t, 2, 1, "a", "k", "w"), CodeStaleEvent},
			{leave(3, 1, "a"), "duplicate"},
		},
		"a removal that found nothing is stale once the node is there": {
			{leave(1, 1, "a"), "duplicate"}, {update(t, 2, 1, "a"), "applied"}, {leave(1, 1, "a"), CodeStaleEvent},
		},
		"a removal met again is a duplicate while the node is gone": {
			{update(t, 1, 1, "a"), "applied"},
			{leave(2, 1, "a"), "applied"},
			{leave(3, 1, "a"), "duplicate"},
			{leave(2, 1, "a"), "duplicate"},
			{leave(3, 1, "a"), "duplicate"},
			{update(t, 1, 1, "a"), CodeStaleEvent},
			{update(t, 4, 1, "a"), "applied"},
			{leave(3, 1, "a"), CodeStaleEvent},
			{leave(2, 1, "a"), CodeStaleEvent},
		},
		"two nodes may carry the same event id": {
			{update(t, 1, 1, "a"), "applied"}, {update(t, 1, 1, "b"), "applied"},
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

func TestWhatIsNotAnEventIsRejectedOnceAndTheFoldGoesOn(t *testing.T) {
	good := update(t, 1, 1, "a", "k", "v")
	body := string(policy.Append(nil, good))
	subject := wire.Subject(good)
	for name, c := range map[string]struct{ subject, body, want string }{
		"nothing":                            {subject, ``, policy.Undecodable},
		"half an object":                     {subject, body[:len(body)-1], policy.Undecodable},
		"a field twice":                      {subject, `{"type":"node_updated",` + body[1:], policy.Undecodable},
		"a field nobody knows":               {subject, `{"colour":"red",` + body[1:], policy.Undecodable},
		"a type nobody knows":                {subject, `{"id":"` + evt(1).String() + `","type":"node_painted"}`, policy.UnknownType},
		"a node event on a policy's subject": {"edict.log." + tenant(1).String() + ".policy." + pol(1).String(), body, CodeSubjectMismatch},
		"another node's subject":             {"edict.log." + tenant(1).String() + ".node.b", body, CodeSubjectMismatch},
		"another project's subject":          {"edict.log." + tenant(2).String() + ".node.a", body, CodeSubjectMismatch},
		"a label that breaks a rule":         {subject, `{"id":"` + evt(1).String() + `","type":"node_updated","project_id":"` + tenant(1).String() + `","node_id":"a","labels":{"-":"x"},"addresses":["nowhere"]}`, policy.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			p, j := openFresh(t), &journal{}
			require.Equal(t, c.want, verdict(t, p, j.raw(c.subject, []byte(c.body))))
			require.Equal(t, "applied", verdict(t, p, j.add(good)), "the fold goes on")
			rs, err := p.Rejections(0, 10)
			require.NoError(t, err)
			require.Len(t, rs, 1)
			require.Equal(t, uint64(1), rs[0].Seq)
			require.Equal(t, c.subject, rs[0].Subject)
			require.NotEmpty(t, rs[0].Detail)
			if c.want == policy.Invalid {
				require.Len(t, rs[0].Violations, 2, "every fault at once")
			}
		})
	}
}

func TestAnEventOfANewerSchemaStopsTheFold(t *testing.T) {
	for _, form := range []string{wire.PrefixSchema, wire.PrefixSchemaOld} {
		p, j := openFresh(t), &journal{}
		first := j.add(update(t, 1, 1, "a"))
		second := j.add(update(t, 2, 1, "b"))
		second.Header = map[string][]string{wire.HeaderDataSchema: {fmt.Sprint(form, policy.NewestSchema+1)}}
		second.Subject = "edict.log.access.ana"
		err := p.Apply([]streams.Message{first, second})
		var newer *NewerEventError
		require.ErrorAs(t, err, &newer)
		require.Equal(t, uint64(2), newer.Seq)
		require.Equal(t, uint64(1), p.Applied(), "what came before it is folded")
	}
}

// Whoever operates a project may append to it, and must not stop the plane.
func TestANewerSchemaOfAProjectsEventIsRejected(t *testing.T) {
	p, j := openFresh(t), &journal{}
	forged := j.add(update(t, 1, 1, "a"))
	forged.Header = map[string][]string{wire.HeaderDataSchema: {"edict/v99"}}
	ahead := j.add(update(t, 3, 1, "c"))
	ahead.Header = map[string][]string{wire.HeaderDataSchema: {"edict/v6"}} // which is known, and of no project's event
	require.NoError(t, p.Apply([]streams.Message{forged, ahead, j.add(update(t, 2, 1, "b"))}))
	require.Equal(t, uint64(3), p.Applied())
	rejected, err := p.Rejections(0, 10)
	require.NoError(t, err)
	require.Len(t, rejected, 2)
	require.Equal(t, policy.Undecodable, rejected[0].Code)
	require.Equal(t, policy.Undecodable, rejected[1].Code)
	p.Read(func(v *View) { require.Equal(t, 1, v.Counts().Nodes) })
}

func TestARevisionClaimsTheSchemaThatItNeedsOrAnOlder(t *testing.T) {
	gen.Unraced()
	directed, ordinary := revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80), revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80)
	directed.Revision.Rules[0].Direction = policy.Ingress
	audited := revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80)
	audited.Revision.Order.Audit = true
	for _, c := range []struct {
		event       policy.Event
		claim, want string
	}{
		{directed, "edict/v7", "applied"},
		{directed, "edict/v6", policy.Undecodable},
		{directed, "edict/v8", policy.Undecodable},
		{directed, "edict/v1", "applied"},
		{audited, "edict/v11", "applied"},
		{audited, "edict/v10", policy.Undecodable},
		{ordinary, "edict/v7", policy.Undecodable},
		{ordinary, "edict/v1", "applied"},
	} {
		for _, claim := range []string{c.claim, strings.Replace(c.claim, wire.PrefixSchemaOld, wire.PrefixSchema, 1)} {
			p, j := openFresh(t), &journal{}
			m := j.add(c.event)
			m.Header = map[string][]string{wire.HeaderDataSchema: {claim}}
			require.Equal(t, c.want, verdict(t, p, m), claim)
		}
	}
}

func TestAnEventThatSaysItsReteClaimsTheSchemaThatItNeedsOrAnOlder(t *testing.T) {
	gen.Unraced()
	k1 := one("k1")
	plain := pinning(release(1, 1, "a", 1, k1, []string{k1}, "flor"), k1)
	for _, c := range []struct {
		event       policy.Event
		claim, want string
	}{
		{naming(plain, "one"), "edict/v8", "applied"},
		{naming(plain, "one"), "edict/v7", policy.Undecodable},
		{naming(plain, "one"), "edict/v9", policy.Undecodable},
		{naming(plain, "one"), "edict/v3", "applied"},
		{plain, "edict/v8", policy.Undecodable},
		{plain, "edict/v3", "applied"},
		{naming(withdraw(1, 1, "a", kindVertex, "flor"), "one"), "edict/v8", "duplicate"},
		{withdraw(1, 1, "a", kindVertex, "flor"), "edict/v8", policy.Undecodable},
	} {
		for _, claim := range []string{c.claim, strings.Replace(c.claim, wire.PrefixSchemaOld, wire.PrefixSchema, 1)} {
			p, j := openFresh(t), &journal{}
			m := j.add(c.event)
			m.Header = map[string][]string{wire.HeaderDataSchema: {claim}}
			require.Equal(t, c.want, verdict(t, p, m), claim)
		}
	}
}

func TestWhichSchemasAreNewer(t *testing.T) {
	for schema, want := range map[string]bool{
		"": false, "edict/v1": false, "edict/v2": false, "edict/v3": false, "edict/v4": false, "edict/v5": false, "edict/v6": false, "edict/v7": false, "edict/v8": false, "edict/v9": false, "edict/v10": false, "edict/v11": false, "edict/v12": false, "edict/v13": false, "edict/v14": true, "edict/v18446744073709551616": true, "edict/vx": false, "other/v2": false,
		"urn:edict:schema:v1": false, "urn:edict:schema:v12": false, "urn:edict:schema:v13": false, "urn:edict:schema:v14": true, "urn:edict:schema:v18446744073709551616": true, "urn:edict:schema:vx": false, "urn:other:schema:v13": false,
	} {
		require.Equal(t, want, newer(schema), schema)
	}
}

func TestRejectionsAreOfferedUntilReported(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for range 3 {
		verdict(t, p, j.raw("edict.log.x.node.a", []byte(`{`)))
	}
	rs, err := p.Unreported(2)
	require.NoError(t, err)
	require.Len(t, rs, 2)
	require.NoError(t, p.Reported(2))
	rs, err = p.Unreported(10)
	require.NoError(t, err)
	require.Len(t, rs, 1)
	require.Equal(t, uint64(3), rs[0].Seq)
}

// A verdict is kept until the one that takes its place, a whole ring later, and takes no
// room where none was put.
func TestAVerdictIsKeptForARing(t *testing.T) {
	var r verdicts
	kept := func(seq uint64) bool {
		v, ok := r.get(seq)
		require.True(t, !ok || v.Duplicate && v.Seq == seq)
		return ok
	}
	require.False(t, kept(1))
	last := uint64(verdictsKept - 1)
	r.put([]Verdict{{Seq: 1, Duplicate: true}, {Seq: 2, Rejection: &streams.Rejection{}}, {Seq: last, Duplicate: true}})
	require.True(t, kept(1) && kept(last))
	require.False(t, kept(2) || kept(3) || kept(1+verdictsKept), "none of these was put")
	r.put([]Verdict{{Seq: 1 + verdictsKept, Duplicate: true}})
	require.True(t, kept(1+verdictsKept) && kept(last))
	require.False(t, kept(1))
	taken := 0
	for _, chunk := range r.ring {
		if chunk != nil {
			taken++
		}
	}
	require.Equal(t, 2, taken)
}

func TestARejectionNamesWhatCouldBeReadOfTheEvent(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for _, body := range []string{
		fmt.Sprintf(`{"id":%q,"type":"node_renamed","project_id":%q,"node_id":"a"}`, evt(1), tenant(1)),
		fmt.Sprintf(`{"id":%q,"type":"node_removed","project_id":%q,"node_id":"a","extra":1}`, evt(2), tenant(1)),
		fmt.Sprintf(`{"id":%q,"type":"node_removed","project_id":%q,"node_id":"a"`, evt(3), tenant(1)),
	} {
		require.NoError(t, p.Apply([]streams.Message{j.raw("edict.log."+tenant(1).String()+".node.a", []byte(body))}))
	}
	all, err := p.Rejections(0, 9)
	require.NoError(t, err)
	var got []string
	for _, r := range all {
		got = append(got, r.Code+" "+r.EventID+" "+r.Type)
	}
	require.Equal(t, []string{
		"unknown_type " + evt(1).String() + " node_renamed",
		"undecodable " + evt(2).String() + " node_removed",
		"undecodable  ", // cut off: nothing of it is sure
	}, got)
}

func TestNobodyIsToldToReviseAPolicyThatIsDeleted(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for _, ev := range []policy.Event{revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80), remove(2, 1, 1), revise(t, 3, 1, 1, 2, 0, "web", "role=web", 80)} {
		require.NoError(t, p.Apply([]streams.Message{j.add(ev)}))
	}
	all, err := p.Rejections(0, 9)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, CodePolicyIDUsed, all[0].Code)
	require.NotContains(t, all[0].Detail, "parent_id")
}
