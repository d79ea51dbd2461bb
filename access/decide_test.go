package access

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
)

var (
	shop = uuid.MustParse("00000000-0000-4000-8000-000000000001")
	bank = uuid.MustParse("00000000-0000-4000-8000-000000000002")
	web  = uuid.MustParse("00000000-0000-4000-8000-000000000003")
)

func relation(t testing.TB, text string) policy.Relation {
	r, err := policy.ParseRelation(text)
	require.NoError(t, err)
	require.Equal(t, text, r.String())
	return r
}

// What one relation allows, another relation never takes away, and whoever has
// none is allowed nothing that needs one.
func TestRelationsOnlyAdd(t *testing.T) {
	all := []string{
		"plane#admin", "plane#read", "project:" + shop.String() + "#operator", "project:" + shop.String() + "#manage", "project:" + bank.String() + "#edit",
		"project:" + shop.String() + "#read", "policy:" + web.String() + "#manage", "policy:" + web.String() + "#read", "node:n1#agent", "node:n2#agent",
	}
	objects := []Object{{}, {Project: shop}, {Project: bank}, {Project: shop, Policy: web}, {Project: bank, Policy: web}, {Project: shop, Node: "n1"}, {Node: "n2"}}
	nobody := NewPrincipal("x", policy.Person)
	for n := Undeclared; n <= AdminPlane; n++ {
		for _, o := range objects {
			require.Equal(t, n == Anyone || n == Known, nobody.Decide(n, o) == Allow, "%s %v", n, o)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		var few []policy.Relation
		for _, text := range rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID).Draw(rt, "relations") {
			few = append(few, relation(t, text))
		}
		n := Need(rapid.IntRange(0, int(AdminPlane)).Draw(rt, "need"))
		o := rapid.SampledFrom(objects).Draw(rt, "object")
		before := NewPrincipal("x", policy.Person, few...).Decide(n, o)
		after := NewPrincipal("x", policy.Person, append(few, relation(t, rapid.SampledFrom(all).Draw(rt, "more")))...).Decide(n, o)
		if before == Allow && after != Allow || before == Forbid && after == Hide {
			rt.Fatalf("%v of %v: %d, and with more %d", n, o, before, after)
		}
	})
}

func TestWhatARelationMustBe(t *testing.T) {
	for _, text := range []string{
		"", "#", "plane", "plane#", "plane#owner", "plane:x#admin", "planet#admin", "project#operator", "project:#operator",
		"project:x#operator", "project:" + shop.String() + "#agent", "policy:" + shop.String() + "#operator", "node:#agent", "node:A#agent",
		"node:a.b#agent", "node:*#agent", "node:a#read", "project:" + uuid.Nil.String() + "#read", "project:{" + shop.String() + "}#read",
	} {
		_, err := policy.ParseRelation(text)
		require.Error(t, err, text)
	}
}

// A snapshot that was made step by step is the one made at once, and the ones
// before it never change.
func TestSnapshotsNeverChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		world, now := File{}, &Snapshot{}
		type past struct {
			s     *Snapshot
			world File
		}
		var history []past
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			id := policy.PrincipalID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "who"))
			next := File{}
			for k, v := range world {
				next[k] = v
			}
			delete(next, id)
			if rapid.Bool().Draw(rt, "there") {
				e := &Entry{Principal: policy.Principal{Kind: policy.Person}}
				for _, n := range rapid.SliceOfDistinct(rapid.IntRange(0, 5), rapid.ID).Draw(rt, "tokens") {
					e.Principal.Tokens = append(e.Principal.Tokens, policy.Token{Hash: sha256.Sum256([]byte{id[0], byte(n)})})
				}
				next[id] = e
			}
			world, now = next, now.next(1, []projector.Principal{{ID: id}}, next)
			history = append(history, past{now, world})
		}
		for _, h := range history {
			for _, id := range []policy.PrincipalID{"a", "b", "c"} {
				for n := range byte(6) {
					hash := sha256.Sum256([]byte{id[0], n})
					want := false
					if e := h.world[id]; e != nil {
						for _, tok := range e.Principal.Tokens {
							want = want || tok.Hash == hash
						}
					}
					p := h.s.find(tokenKey(hash), time.Now())
					if want != (p != nil) || p != nil && p.ID != id {
						rt.Fatalf("%s's token %d: %v", id, n, p)
					}
				}
			}
		}
	})
}

type silentModel struct{}

func (silentModel) AccessVersion() uint64        { return 0 }
func (silentModel) Read(func(v *projector.View)) {}
func clockAt(now time.Time) func() time.Time     { return func() time.Time { return now } }

func TestATokenIsGoodUntilItExpires(t *testing.T) {
	end := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	text, kept := NewToken(uuid.New(), end)
	require.Regexp(t, `^edt_[a-z2-7]{52}$`, text)
	file := File{"ana": {Principal: policy.Principal{Kind: policy.Person, Tokens: []policy.Token{kept}}}}
	for now, good := range map[time.Time]bool{end.Add(-time.Second): true, end: false, end.Add(time.Hour): false} {
		r := NewRegistry(silentModel{}, Options{File: file, Clock: clockAt(now)})
		p, err := r.Authenticate(context.Background(), Credentials{Bearer: text})
		require.Equal(t, good, err == nil)
		require.Equal(t, good, p != nil)
		_, err = r.Authenticate(context.Background(), Credentials{Bearer: text, SPIFFE: []string{"spiffe://a/b"}})
		require.Equal(t, good, err == nil)
	}
}

func TestWhatAGuestMayDoOverNATS(t *testing.T) {
	rights := func(relations ...string) (streams.Guest, bool) {
		var list []policy.Relation
		for _, r := range relations {
			list = append(list, relation(t, r))
		}
		return NewPrincipal("x", policy.Service, list...).Permissions()
	}
	g, ok := rights("node:n1#agent")
	require.True(t, ok)
	require.Equal(t, streams.QuarterNodes, g.Quarter)
	require.Equal(t, []string{"edict.replay.node.n1", "edict.report.node.n1"}, g.Publish)
	require.Equal(t, []string{"_INBOX.n1.>", "edict.live.node.n1.>"}, g.Hear)
	g, ok = rights("project:"+shop.String()+"#operator", "project:"+bank.String()+"#manage", "policy:"+web.String()+"#manage")
	require.True(t, ok)
	require.Equal(t, streams.QuarterProducers, g.Quarter)
	require.Equal(t, []string{"edict.log." + shop.String() + ".artifact.*", "edict.log." + shop.String() + ".node.*", "edict.log." + shop.String() + ".policy." + web.String()}, g.Publish)
	require.Empty(t, g.Hear)
	g, ok = rights("plane#admin")
	require.True(t, ok)
	require.Equal(t, streams.QuarterPlane, g.Quarter)
	for _, none := range [][]string{{}, {"plane#read"}, {"project:" + shop.String() + "#manage"}} {
		_, ok := rights(none...)
		require.False(t, ok, none)
	}
}

// Authorisation of a request: find the principal of a token, and decide. Held to
// 5 µs and 2 allocations.
func BenchmarkAuthorize(b *testing.B) {
	file := File{}
	var text string
	for i := range 10_000 {
		t, kept := NewToken(uuid.New(), time.Time{})
		id := policy.PrincipalID(uuid.NewString())
		file[id] = &Entry{
			Principal: policy.Principal{Kind: policy.Agent, Tokens: []policy.Token{kept}},
			Relations: []policy.Relation{{Kind: policy.ObjectNode, Node: policy.NodeID(id), Name: policy.RelationAgent}},
		}
		if i == 0 {
			text = t
		}
	}
	r := NewRegistry(silentModel{}, Options{File: file})
	c := Credentials{Bearer: text}
	limit := NewLimiter(0)
	b.ReportAllocs()
	for b.Loop() {
		p, err := r.Authenticate(context.Background(), c)
		if err != nil {
			b.Fatal(err)
		}
		if _, ok := limit.Take(p.ID, time.Time{}); !ok {
			b.Fatal("limited")
		}
		if p.Decide(ReadNode, Object{Node: policy.NodeID(p.ID)}) != Allow {
			b.Fatal("denied")
		}
	}
}

func TestAuthorisationAllocatesNextToNothing(t *testing.T) {
	text, kept := NewToken(uuid.New(), time.Time{})
	r := NewRegistry(silentModel{}, Options{File: File{"n1": {
		Principal: policy.Principal{Kind: policy.Agent, Tokens: []policy.Token{kept}}, Relations: []policy.Relation{relation(t, "node:n1#agent")},
	}}})
	limit := NewLimiter(1_000_000)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		p, _ := r.Authenticate(context.Background(), Credentials{Bearer: text})
		limit.Take(p.ID, time.Now())
		p.Decide(ReadNode, Object{Node: "n1"})
	}), 2.0)
}
