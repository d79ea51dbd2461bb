package access

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
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
		"project:" + shop.String() + "#read", "policy:" + web.String() + "#manage", "policy:" + web.String() + "#read", "node:" + shop.String() + "/n1#agent", "node:" + bank.String() + "/n1#agent", "node:n1#agent", "node:n2#agent",
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
		"node:a.b#agent", "node:*#agent", "node:a#read", "node:/a#agent", "node:x/a#agent", "node:" + shop.String() + "/#agent", "node:" + shop.String() + "/a/b#agent", "node:" + uuid.Nil.String() + "/a#agent", "project:" + uuid.Nil.String() + "#read", "project:{" + shop.String() + "}#read",
	} {
		_, err := policy.ParseRelation(text)
		require.Error(t, err, text)
	}
}

// A snapshot that was made step by step says of every credential what its lists
// say, and the ones before it never change: a credential proves the one who
// lists it, of several the one whom the file has, and else nobody.
func TestSnapshotsNeverChange(t *testing.T) {
	hash := func(n int) [sha256.Size]byte { return sha256.Sum256([]byte{byte(n)}) }
	rapid.Check(t, func(rt *rapid.T) {
		draw := func() policy.Principal {
			p := policy.Principal{Kind: policy.Person}
			for _, n := range rapid.SliceOfDistinct(rapid.IntRange(0, 3), rapid.ID).Draw(rt, "tokens") {
				p.Tokens = append(p.Tokens, policy.Token{Hash: hash(n)})
			}
			return p
		}
		file := File{"f": {Principal: draw()}, "g": {Principal: draw()}}
		now := (&Snapshot{}).next(0, []projector.Principal{{ID: "f"}, {ID: "g"}}, file)
		type past struct {
			s   *Snapshot
			log map[policy.PrincipalID]*policy.Principal
		}
		world := map[policy.PrincipalID]*policy.Principal{}
		var history []past
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			id := policy.PrincipalID(rapid.SampledFrom([]string{"a", "b", "c", "f"}).Draw(rt, "who"))
			world = maps.Clone(world)
			delete(world, id)
			if rapid.Bool().Draw(rt, "there") {
				d := draw()
				world[id] = &d
			}
			now = now.next(1, []projector.Principal{{ID: id, Document: world[id]}}, file)
			history = append(history, past{now, world})
		}
		lists := func(d *policy.Principal, n int) bool {
			return d != nil && slices.ContainsFunc(d.Tokens, func(k policy.Token) bool { return k.Hash == hash(n) })
		}
		for _, h := range history {
			for n := range 4 {
				var filed, all []policy.PrincipalID
				for _, id := range []policy.PrincipalID{"a", "b", "c", "f", "g"} {
					inFile := file[id] != nil && lists(&file[id].Principal, n)
					if inFile {
						filed = append(filed, id)
					}
					if inFile || lists(h.log[id], n) {
						all = append(all, id)
					}
				}
				want := policy.PrincipalID("")
				switch {
				case len(all) == 1:
					want = all[0]
				case len(filed) == 1:
					want = filed[0]
				}
				got := policy.PrincipalID("")
				if p := h.s.find(tokenKey(hash(n)), time.Now()); p != nil {
					got = p.ID
				}
				by, _ := h.s.Taken("a", policy.Principal{Tokens: []policy.Token{{Hash: hash(n)}}})
				taken := len(all) > 1 || len(all) == 1 && all[0] != "a"
				if want != got || taken != (by != "") {
					rt.Fatalf("token %d of %v, in the file %v: it proves %q, taken by %q", n, all, filed, got, by)
				}
			}
		}
	})
}

// Whoever names a node first has it. Its agent is the one that a relation to
// that project's node names, and no other.
func TestAnAgentIsOfANodeOfOneProject(t *testing.T) {
	named := NewPrincipal("n1", policy.Agent, relation(t, "node:"+shop.String()+"/n1#agent"))
	bare := NewPrincipal("n1", policy.Agent, relation(t, "node:n1#agent"))
	for _, n := range []Need{ReadNode, ActAsNode} {
		require.Equal(t, Allow, named.Decide(n, Object{Project: shop, Node: "n1"}))
		require.Equal(t, Forbid, named.Decide(n, Object{Project: bank, Node: "n1"}))
		require.Equal(t, Hide, named.Decide(n, Object{Node: "n1"}), "it is not there yet")
		for _, project := range []uuid.UUID{uuid.Nil, shop, bank} {
			require.Equal(t, Forbid, bare.Decide(n, Object{Project: project, Node: "n1"}))
		}
	}
	both := NewPrincipal("n1", policy.Agent, relation(t, "node:"+shop.String()+"/n1#agent"), relation(t, "node:"+bank.String()+"/n1#agent"))
	require.Equal(t, Allow, both.Decide(ActAsNode, Object{Project: shop, Node: "n1"}))
	require.Equal(t, Allow, both.Decide(ActAsNode, Object{Project: bank, Node: "n1"}))

	owner := bank
	spent := func(uuid.UUID) bool { return false }
	owns := func(_ policy.NodeID, project uuid.UUID) bool { return project == owner }
	theirs, ok := named.permissions(owns, spent)
	require.True(t, ok)
	require.Empty(t, theirs.Hear)
	require.Empty(t, theirs.Publish)
	owner = shop
	own, _ := named.permissions(owns, spent)
	require.Contains(t, own.Hear, "edict.node.n1.>")
	require.NotEqual(t, theirs.Name, own.Name, "whoever was let in before comes again")
	_, ok = bare.permissions(owns, spent)
	require.False(t, ok)
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
	g, ok := rights("node:" + shop.String() + "/n1#agent")
	require.True(t, ok)
	require.Equal(t, streams.AccountNodes, g.Account)
	require.Equal(t, []string{"edict.replay.node.n1", "edict.report.node.n1"}, g.Publish)
	require.Equal(t, []string{"_INBOX.n1.>", "edict.node.n1.>"}, g.Hear)
	g, ok = rights("project:"+shop.String()+"#operator", "project:"+bank.String()+"#manage", "policy:"+web.String()+"#manage")
	require.True(t, ok)
	require.Equal(t, streams.AccountProducers, g.Account)
	require.Equal(t, []string{"edict.log." + shop.String() + ".artifact.*", "edict.log." + shop.String() + ".node.*", "edict.log." + shop.String() + ".policy." + web.String(), "edict.verdict." + shop.String() + ".*"}, g.Publish)
	require.Equal(t, []string{"_INBOX.x.>"}, g.Hear)
	g, ok = rights("plane#admin")
	require.True(t, ok)
	require.Equal(t, streams.AccountPlane, g.Account)
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
			Relations: []policy.Relation{{Kind: policy.ObjectNode, ID: shop, Node: policy.NodeID(id), Name: policy.RelationAgent}},
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
		if p.Decide(ReadNode, Object{Project: shop, Node: policy.NodeID(p.ID)}) != Allow {
			b.Fatal("denied")
		}
	}
}

func TestAuthorisationAllocatesNextToNothing(t *testing.T) {
	text, kept := NewToken(uuid.New(), time.Time{})
	r := NewRegistry(silentModel{}, Options{File: File{"n1": {
		Principal: policy.Principal{Kind: policy.Agent, Tokens: []policy.Token{kept}}, Relations: []policy.Relation{relation(t, "node:"+shop.String()+"/n1#agent")},
	}}})
	limit := NewLimiter(1_000_000)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		p, _ := r.Authenticate(context.Background(), Credentials{Bearer: text})
		limit.Take(p.ID, time.Now())
		p.Decide(ReadNode, Object{Project: shop, Node: "n1"})
	}), 2.0)
}
