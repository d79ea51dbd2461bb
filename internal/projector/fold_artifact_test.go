package projector

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// The signers of these tests: k1 to k3 of rete "one", one of rete "two", and one of what is
// called as no rete may be.
var reteKeys = sync.OnceValue(func() map[string]*artifact.Signer {
	keys := map[string]*artifact.Signer{}
	for _, id := range []string{spiffe("one", "k1"), spiffe("one", "k2"), spiffe("one", "k3"), spiffe("two", "k1"), spiffe("no subject >", "k1")} {
		s, err := artifact.GenerateSigner()
		if err != nil {
			panic(err)
		}
		keys[id] = s.As(id)
	}
	return keys
})

func spiffe(rete, key string) string { return "spiffe://" + rete + "/management-plane/" + key }

// one is the id of a signer of rete "one".
func one(key string) string { return spiffe("one", key) }

func signersOf(ids ...string) (out []policy.TrustedSigner) {
	for _, id := range ids {
		out = append(out, policy.TrustedSigner{SPIFFE: id, Key: reteKeys()[id].PublicKey()})
	}
	return out
}

// sealing is an artifact before it is signed.
type sealing struct {
	signer, node, kind, name string
	version                  uint64
	trust                    []string // of the agent
	change                   func(*artifact.Envelope)
}

func (s sealing) doc() string {
	e := artifact.Envelope{
		Plane: artifact.PlaneMgmt, Kind: s.kind, Name: s.name, Node: s.node, Version: s.version,
		GeneratedAt: born, Payload: []byte(`{"runs":"` + s.name + `"}`),
	}
	if s.kind == kindAgent {
		var list []string
		for _, t := range signersOf(s.trust...) {
			list = append(list, fmt.Sprintf(`{"spiffe_id":%q,"pubkey":%q}`, t.SPIFFE, base64.StdEncoding.EncodeToString(t.Key)))
		}
		e.Payload = []byte(`{"trust":{"authorized_mgmt_signers":[` + strings.Join(list, ",") + `]}}`)
	}
	if s.change != nil {
		s.change(&e)
	}
	doc, err := reteKeys()[s.signer].SealDocument(e)
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(string(doc), "\n")
}

// release is an event that gives a node an agent and vertices, all signed by
// one signer, who lists trust.
func release(event, proj int, node string, version uint64, signer string, trust []string, vertices ...string) policy.ArtifactReleased {
	e := policy.ArtifactReleased{ID: evt(event), Project: tenant(proj), Node: policy.NodeID(node)}
	e.Artifacts = append(e.Artifacts, sealing{signer: signer, node: node, kind: kindAgent, name: kindAgent, version: version, trust: trust}.doc())
	for _, v := range vertices {
		e.Artifacts = append(e.Artifacts, sealing{signer: signer, node: node, kind: kindVertex, name: v, version: version}.doc())
	}
	return e
}

// pinning adds the pin to a release.
func pinning(e policy.ArtifactReleased, ids ...string) policy.ArtifactReleased {
	e.Trust = signersOf(ids...)
	return e
}

func withdraw(event, proj int, node, kind, name string) policy.ArtifactWithdrawn {
	return policy.ArtifactWithdrawn{ID: evt(event), Project: tenant(proj), Node: policy.NodeID(node), Kind: kind, Name: name}
}

// manyNames are so many names of vertices.
func manyNames(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("v%03d", i))
	}
	return all
}

func TestTheFoldJudgesReleases(t *testing.T) {
	gen.Unraced()
	k1, k2, k3 := one("k1"), one("k2"), one("k3")
	first := pinning(release(1, 1, "a", 1, k1, []string{k1}, "flor"), k1)
	damaged := func(event int, change func(*policy.ArtifactReleased)) policy.ArtifactReleased {
		e := release(event, 1, "a", 9, k1, []string{k1}, "flor")
		change(&e)
		return e
	}
	sealed := func(event int, s sealing) policy.ArtifactReleased {
		return damaged(event, func(e *policy.ArtifactReleased) { e.Artifacts[1] = s.doc() })
	}
	vertex := sealing{signer: k1, node: "a", kind: kindVertex, name: "flor", version: 9}
	type step struct {
		event policy.Event
		want  string
	}
	for name, steps := range map[string][]step{
		"nothing is released before a signer is pinned": {
			{release(1, 1, "a", 1, k1, []string{k1}, "flor"), CodeSignerNotTrusted},
			{pinning(release(2, 1, "a", 1, k1, []string{k1}, "flor"), k2), CodeSignerNotTrusted},
			{first, "applied"},
		},
		"the name of a rete is one that a subject can have": {
			{pinning(release(1, 1, "a", 1, spiffe("no subject >", "k1"), []string{spiffe("no subject >", "k1")}, "flor"), spiffe("no subject >", "k1")), policy.Invalid},
		},
		"a pin means nothing once there are signers": {
			{first, "applied"},
			{pinning(release(2, 1, "b", 2, k2, []string{k2}, "flor"), k2), CodeSignerNotTrusted},
			{pinning(release(3, 1, "b", 2, k1, []string{k1}, "flor"), k2), "applied"},
		},
		"a version must be newer, of every node for itself": {
			{first, "applied"},
			{release(2, 1, "a", 1, k1, []string{k1}, "other"), CodeVersionNotNewer},
			{release(3, 1, "a", 1, k1, []string{k1}, "flor"), "duplicate"},
			{release(4, 1, "a", 7, k1, []string{k1}, "flor"), "applied"},
			{release(5, 1, "a", 6, k1, []string{k1}, "flor"), CodeVersionNotNewer},
			{release(6, 1, "b", 1, k1, []string{k1}, "flor"), "applied"},
		},
		"the event met again is a duplicate, an older one is stale": {
			{first, "applied"},
			{first, "duplicate"},
			{withdraw(2, 1, "a", kindVertex, "flor"), "applied"},
			{release(3, 1, "a", 2, k1, []string{k1}, "flor"), "applied"},
			{first, CodeStaleEvent},
			{withdraw(2, 1, "a", kindVertex, "flor"), CodeStaleEvent},
		},
		"a signer enters by a trusted signer's hand and leaves by his successor's": {
			{first, "applied"},
			{release(2, 1, "a", 2, k2, []string{k1, k2}, "flor"), CodeSignerNotTrusted},
			{release(3, 1, "a", 2, k1, []string{k1, k2}, "flor"), "applied"},
			{release(4, 1, "a", 3, k2, []string{k2}, "flor"), "applied"},
			{release(5, 1, "a", 4, k1, []string{k1, k2}, "flor"), CodeSignerNotTrusted},
			{release(6, 1, "b", 4, k1, []string{k1}, "flor"), CodeSignerNotTrusted},
			{release(7, 1, "b", 3, k2, []string{k2}, "flor"), "applied"},
		},
		"vertices are signed by whom the agent authorizes": {
			{first, "applied"},
			{damaged(2, func(e *policy.ArtifactReleased) {
				e.Artifacts[0] = sealing{signer: k1, node: "a", kind: kindAgent, name: kindAgent, version: 9, trust: []string{k2}}.doc()
			}), CodeSignerNotTrusted},
			{damaged(3, func(e *policy.ArtifactReleased) {
				e.Artifacts[0] = sealing{signer: k1, node: "a", kind: kindAgent, name: kindAgent, version: 9, trust: []string{k2}}.doc()
				e.Artifacts[1] = sealing{signer: k2, node: "a", kind: kindVertex, name: "flor", version: 9}.doc()
			}), "applied"},
			{release(4, 1, "a", 10, k2, []string{k2, k3}, "flor"), "applied"},
		},
		"an older set does not bring retired signers back": {
			{first, "applied"},
			{release(2, 1, "a", 5, k1, []string{k1, k2}, "flor"), "applied"},
			{release(3, 1, "b", 2, k1, []string{k1}, "flor"), "applied"},
			{release(4, 1, "a", 6, k2, []string{k2}, "flor"), "applied"},
		},
		"a document that was changed after it was signed": {
			{first, "applied"},
			{damaged(2, func(e *policy.ArtifactReleased) {
				e.Artifacts[1] = strings.Replace(e.Artifacts[1], `"runs": "flor"`, `"runs": "evil"`, 1)
			}), CodeBadSignature},
			{damaged(3, func(e *policy.ArtifactReleased) {
				e.Artifacts[0] = strings.Replace(e.Artifacts[0], `"version": 9`, `"version": 10`, 1)
				e.Artifacts[1] = strings.Replace(e.Artifacts[1], `"version": 9`, `"version": 10`, 1)
			}), CodeBadSignature},
		},
		"a signature that another key made under a trusted name": {
			{first, "applied"},
			{damaged(2, func(e *policy.ArtifactReleased) {
				doc, err := reteKeys()[k2].As(k1).SealDocument(artifact.Envelope{
					Plane: artifact.PlaneMgmt, Kind: kindVertex, Name: "flor", Node: "a", Version: 9, GeneratedAt: born, Payload: []byte(`{}`),
				})
				require.NoError(t, err)
				e.Artifacts[1] = strings.TrimSuffix(string(doc), "\n")
			}), CodeBadSignature},
		},
		"documents that are not a set": {
			{first, "applied"},
			{damaged(2, func(e *policy.ArtifactReleased) { e.Artifacts[1] = `{}` }), policy.Invalid},
			{damaged(3, func(e *policy.ArtifactReleased) { e.Artifacts = e.Artifacts[1:] }), policy.Invalid},
			{damaged(4, func(e *policy.ArtifactReleased) { e.Artifacts = append(e.Artifacts, e.Artifacts[1]) }), policy.Invalid},
			{damaged(5, func(e *policy.ArtifactReleased) { e.Artifacts = nil }), policy.Invalid},
			{sealed(6, sealing{signer: k1, node: "b", kind: kindVertex, name: "flor", version: 9}), policy.Invalid},
			{sealed(7, sealing{signer: k1, node: "a", kind: "other", name: "flor", version: 9}), policy.Invalid},
			{sealed(8, sealing{signer: k1, node: "a", kind: kindVertex, name: "a.b", version: 9}), policy.Invalid},
			{sealed(9, sealing{signer: k1, node: "a", kind: kindVertex, name: "flor", version: 8}), policy.Invalid},
			{sealed(10, sealing{signer: spiffe("two", "k1"), node: "a", kind: kindVertex, name: "flor", version: 9}), policy.Invalid},
			{sealed(11, sealing{signer: k1, node: "a", kind: kindAgent, name: "flor", version: 9}), policy.Invalid},
			{damaged(12, func(e *policy.ArtifactReleased) {
				v := vertex
				v.change = func(e *artifact.Envelope) { e.Plane = artifact.PlanePolicy }
				e.Artifacts[1] = v.doc()
			}), policy.Invalid},
			{damaged(13, func(e *policy.ArtifactReleased) {
				e.Artifacts[0] = sealing{signer: k1, node: "a", kind: kindAgent, name: kindAgent, version: 9}.doc()
			}), policy.Invalid},
			{damaged(14, func(e *policy.ArtifactReleased) {
				e.Artifacts[1] = strings.Replace(e.Artifacts[1], `"ed25519"`, `"none"`, 1)
			}), policy.Invalid},
			{sealed(15, vertex), "applied"},
		},
		"a node belongs to one project and one rete": {
			{update(t, 1, 2, "b", "role", "web"), "applied"},
			{pinning(release(2, 1, "b", 1, k1, []string{k1}, "flor"), k1), CodeNodeIDTaken},
			{pinning(release(3, 1, "a", 1, k1, []string{k1}, "flor"), k1), "applied"},
			{pinning(release(4, 1, "a", 2, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), spiffe("two", "k1")), CodeSignerNotTrusted},
			{update(t, 5, 2, "a", "role", "web"), CodeNodeIDTaken},
		},
		"a node is of a second rete where the event says so": {
			{first, "applied"},
			{naming(pinning(release(2, 1, "a", 1, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), k1), "two"), policy.Invalid},
			{naming(release(3, 1, "a", 1, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), "two"), CodeSignerNotTrusted},
			{naming(pinning(release(4, 1, "a", 1, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), spiffe("two", "k1")), "two"), "applied"},
			{release(5, 1, "a", 1, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), "duplicate"},
			{release(6, 1, "a", 1, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "other"), CodeVersionNotNewer},
			{release(7, 1, "a", 2, k1, []string{k1}, "flor"), "applied"},
			{naming(release(8, 1, "a", 3, k1, []string{k1}, "flor"), "one"), "applied"},
			{naming(release(9, 1, "a", 3, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), "one"), policy.Invalid},
			{naming(withdraw(10, 1, "a", kindVertex, "flor"), "three"), "duplicate"},
			{naming(withdraw(11, 1, "a", kindVertex, "flor"), "two"), "applied"},
			{naming(withdraw(12, 1, "a", kindAgent, kindAgent), "two"), "applied"},
			{naming(release(13, 1, "a", 9, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), "two"), CodeSignerNotTrusted},
			{naming(pinning(release(14, 1, "a", 1, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), spiffe("two", "k1")), "two"), CodeVersionNotNewer},
			{release(15, 1, "a", 4, k1, []string{k1}, "flor"), "applied"},
		},
		"what a node had of a second rete is not newer when all of both retes went": {
			{first, "applied"},
			{naming(pinning(release(2, 1, "a", 3, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), spiffe("two", "k1")), "two"), "applied"},
			{naming(withdraw(3, 1, "a", kindVertex, "flor"), "two"), "applied"},
			{naming(withdraw(4, 1, "a", kindAgent, kindAgent), "two"), "applied"},
			{withdraw(5, 1, "a", kindVertex, "flor"), "applied"},
			{withdraw(6, 1, "a", kindAgent, kindAgent), "applied"},
			{pinning(release(7, 1, "a", 2, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), spiffe("two", "k1")), CodeVersionNotNewer},
			{pinning(release(8, 1, "a", 4, spiffe("two", "k1"), []string{spiffe("two", "k1")}, "flor"), spiffe("two", "k1")), "applied"},
			{naming(withdraw(9, 1, "a", kindVertex, "flor"), "two"), "applied"},
		},
		"a node holds a bounded number of artifacts, of all its retes": {
			{first, "applied"},
			{naming(pinning(release(2, 1, "a", 1, spiffe("two", "k1"), []string{spiffe("two", "k1")}, manyNames(policy.MaxArtifacts-2)...), spiffe("two", "k1")), "two"), policy.Invalid},
			{naming(pinning(release(3, 1, "a", 1, spiffe("two", "k1"), []string{spiffe("two", "k1")}, manyNames(policy.MaxArtifacts-3)...), spiffe("two", "k1")), "two"), "applied"},
			{release(4, 1, "a", 2, k1, []string{k1}, "flor", "one-more"), policy.Invalid},
			{update(t, 5, 1, "a", "role", "web"), "applied"},
			{leave(6, 1, "a"), "applied"},
		},
		"a rete without artifacts is pinned anew, and versions still rise": {
			{first, "applied"},
			{withdraw(2, 1, "a", kindAgent, kindAgent), "applied"},
			{withdraw(3, 1, "a", kindVertex, "flor"), "applied"},
			{withdraw(4, 1, "a", kindVertex, "flor"), "duplicate"},
			{release(5, 1, "a", 2, k1, []string{k1}, "flor"), CodeSignerNotTrusted},
			{pinning(release(6, 1, "a", 1, k2, []string{k2}, "flor"), k2), CodeVersionNotNewer},
			{pinning(release(7, 1, "a", 2, k2, []string{k2}, "flor"), k2), "applied"},
		},
		"withdrawing what never was is remembered": {
			{withdraw(1, 1, "a", kindVertex, "flor"), "duplicate"},
			{pinning(release(2, 1, "a", 1, k1, []string{k1}, "flor"), k1), "applied"},
			{withdraw(1, 1, "a", kindVertex, "flor"), CodeStaleEvent},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			p, j := d.open(t), &journal{}
			for i, s := range steps {
				if i == 3 { // the store holds all that the fold asks
					require.NoError(t, p.Close())
					p = d.open(t)
				}
				require.Equal(t, s.want, verdict(t, p, j.add(s.event)), "step %d", i)
			}
			requireEqualToARebuild(t, p, j.msgs)
			require.NoError(t, p.Close())
		})
	}
}

// requireEqualToARebuild folds a log in bulk and compares digests and facts.
func requireEqualToARebuild(t require.TestingT, p *Projector, msgs []streams.Message) {
	fresh := newDisk().openBulk(t, 3)
	defer func() { require.NoError(t, fresh.Close()) }()
	require.NoError(t, fresh.Rebuild(context.Background(), cutLog{batches: [][]streams.Message{msgs}}, uint64(len(msgs))))
	a, err := p.Digest(context.Background())
	require.NoError(t, err)
	b, err := fresh.Digest(context.Background())
	require.NoError(t, err)
	require.Equal(t, a, b)
	require.Equal(t, factsOf(t, p), factsOf(t, fresh))
}

func factsOf(t require.TestingT, p *Projector) (all []Fact) {
	_, facts := p.Facts("")
	for f, err := range facts {
		require.NoError(t, err)
		all = append(all, f)
	}
	return all
}

// releaseOracle judges releases the slow and obvious way.
type releaseOracle struct {
	pinned     map[string][]string // rete → signers
	from       map[string]uint64   // rete → version that gave them
	nodes      map[string]*releaseNode
	registered map[string]bool
}

type releaseNode struct {
	seen map[int]bool
	sets []*releaseSet // the first one first; those beside it have one rete for ever
}

type releaseSet struct {
	beside  bool
	rete    string
	version uint64
	last    int
	docs    map[string]string // <kind>.<name> → document
}

// told is what a node of these sets was told, by the names of messages.
func (n *releaseNode) told() map[string]string {
	all := map[string]string{}
	for _, s := range n.sets {
		for name, doc := range s.docs {
			if s.beside {
				name += "." + s.rete
			}
			all[name] = doc
		}
	}
	return all
}

// set is where an event about a rete belongs; a new one where there is none.
func (n *releaseNode) set(rete string, named bool) *releaseSet {
	first := n.sets[0]
	if len(first.docs) > 0 && first.rete == rete {
		return first
	}
	for _, s := range n.sets[1:] {
		if s.rete == rete {
			return s
		}
	}
	if named && len(first.docs) > 0 {
		return &releaseSet{beside: true, rete: rete}
	}
	return first
}

// of is the set of a rete; nil: there is none.
func (n *releaseNode) of(rete string) *releaseSet {
	for _, s := range n.sets {
		if s.rete == rete && (s.beside || len(s.docs) > 0) {
			return s
		}
	}
	return nil
}

// drawnRelease is an event about artifacts, in words.
type drawnRelease struct {
	number            int
	node              string
	withdraw          string // <kind>.<name>
	version           uint64
	signer            string
	rete              string // that the event says
	pin, trust, parts []string
}

func (d drawnRelease) event() policy.Event {
	if d.withdraw != "" {
		kind, name, _ := strings.Cut(d.withdraw, ".")
		return naming(withdraw(d.number, 1, d.node, kind, name), d.rete)
	}
	return naming(pinning(release(d.number, 1, d.node, d.version, d.signer, d.trust, d.parts...), d.pin...), d.rete)
}

// naming makes an event say of which rete it is.
func naming(e policy.Event, rete string) policy.Event {
	switch e := e.(type) {
	case policy.ArtifactReleased:
		e.Rete = rete
		return e
	case policy.ArtifactWithdrawn:
		e.Rete = rete
		return e
	}
	return e
}

func (o *releaseOracle) judge(d drawnRelease) string {
	n := o.nodes[d.node]
	if n == nil {
		n = &releaseNode{seen: map[int]bool{}, sets: []*releaseSet{{}}}
	}
	for _, s := range n.sets {
		if s.last == d.number {
			return "duplicate"
		}
	}
	if n.seen[d.number] {
		if d.withdraw != "" && d.rete != "" && n.of(d.rete) == nil {
			return "duplicate"
		}
		return CodeStaleEvent
	}
	accept := func(s *releaseSet) {
		o.nodes[d.node], s.last, n.seen[d.number] = n, d.number, true
		if !slices.Contains(n.sets, s) {
			n.sets = append(n.sets, s)
		}
	}
	if d.withdraw != "" {
		s := n.sets[0]
		if d.rete != "" {
			s = n.of(d.rete)
		}
		if s == nil {
			if o.nodes[d.node] == nil {
				accept(n.sets[0])
			}
			n.seen[d.number] = true
			return "duplicate"
		}
		_, had := s.docs[d.withdraw]
		delete(s.docs, d.withdraw)
		accept(s)
		if !had {
			return "duplicate"
		}
		o.unpin()
		return "applied"
	}
	docs := map[string]string{}
	for _, doc := range d.event().(policy.ArtifactReleased).Artifacts {
		e, err := artifact.Parse([]byte(doc))
		if err != nil {
			panic(err)
		}
		docs[e.Kind+"."+e.Name] = doc + "\n"
	}
	rete, _, _ := strings.Cut(strings.TrimPrefix(d.signer, "spiffe://"), "/")
	if d.rete != "" && d.rete != rete {
		return policy.Invalid
	}
	s := n.set(rete, d.rete != "")
	if s.version > 0 && d.version == s.version && maps.Equal(docs, s.docs) {
		return "duplicate"
	}
	if d.version <= s.version {
		return CodeVersionNotNewer
	}
	if len(s.docs) > 0 && s.rete != rete {
		return CodeSignerNotTrusted
	}
	signers, known := o.pinned[rete]
	if !known {
		signers = d.pin
	}
	if !slices.Contains(signers, d.signer) || !slices.Contains(d.trust, d.signer) {
		return CodeSignerNotTrusted // of the agent's artifact, or of the vertices
	}
	if first := n.sets[0]; s == first && first.rete != "" && first.rete != rete && !slices.ContainsFunc(n.sets[1:], func(x *releaseSet) bool { return x.rete == first.rete }) {
		n.sets = append(n.sets, &releaseSet{beside: true, rete: first.rete, version: first.version})
	}
	s.rete, s.version, s.docs = rete, d.version, docs
	accept(s)
	if d.version >= o.from[rete] {
		o.pinned[rete], o.from[rete] = d.trust, d.version
	}
	return "applied"
}

// unpin forgets retes of which no node holds anything.
func (o *releaseOracle) unpin() {
	for rete := range o.pinned {
		held := false
		for _, n := range o.nodes {
			for _, s := range n.sets {
				held = held || s.rete == rete && len(s.docs) > 0
			}
		}
		if !held {
			delete(o.pinned, rete)
			delete(o.from, rete)
		}
	}
}

func drawRelease(t *rapid.T, number int) drawnRelease {
	d := drawnRelease{
		number: number, node: rapid.SampledFrom([]string{"n0", "n1", "n2"}).Draw(t, "node"),
		version: rapid.Uint64Range(1, 9).Draw(t, "version"), signer: rapid.SampledFrom([]string{one("k1"), one("k1"), one("k2"), spiffe("two", "k1")}).Draw(t, "signer"),
		parts: rapid.SampledFrom([][]string{{"flor"}, {"flor", "wg"}, {"wg"}}).Draw(t, "parts"),
	}
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		d.rete = rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "rete")
		d.withdraw = rapid.SampledFrom([]string{"agent.agent", "vertex.flor", "vertex.wg"}).Draw(t, "withdrawn")
		return d
	}
	if rapid.Bool().Draw(t, "named") {
		d.rete, _ = ReteOf(d.signer)
		if rapid.IntRange(0, 9).Draw(t, "wrong") == 0 {
			d.rete = "three"
		}
	}
	d.pin = []string{d.signer}
	d.trust = []string{d.signer}
	if strings.Contains(d.signer, "one") {
		d.trust = rapid.SampledFrom([][]string{{one("k1")}, {one("k1"), one("k2")}, {one("k2")}}).Draw(t, "trust")
	}
	return d
}

// TestReleasesEqualTheOracle folds random releases among nodes that come and
// go, with restarts between, and holds verdicts, what nodes hold, what they
// were told and the digest against the oracle and a rebuild.
func TestReleasesEqualTheOracle(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(rt *rapid.T) {
		o := &releaseOracle{map[string][]string{}, map[string]uint64{}, map[string]*releaseNode{}, map[string]bool{}}
		d, j := newDisk(), &journal{}
		p := d.open(rt)
		ear := listen(p)
		defer func() { require.NoError(rt, p.Close()) }()
		told := map[string]map[string]string{"n0": {}, "n1": {}, "n2": {}}
		for i := range rapid.IntRange(1, 25).Draw(rt, "events") {
			var want string
			var e policy.Event
			switch node := fmt.Sprint("n", i%3); rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				e, want = update(rt, 1000+i, 1, node, "role", "web"), "applied"
				o.registered[node] = true
			case 1:
				e, want = leave(1000+i, 1, node), "applied"
				if !o.registered[node] {
					want = "duplicate"
				}
				o.registered[node] = false
			default:
				x := drawRelease(rt, rapid.IntRange(1, 30).Draw(rt, "event"))
				e, want = x.event(), o.judge(x)
			}
			require.NoError(rt, p.Apply([]streams.Message{j.add(e)}))
			v, err := p.Verdict(context.Background(), uint64(i+1))
			require.NoError(rt, err)
			require.Equal(rt, want, word(v), "event %d: %v", i+1, v.Rejection)
			hearArtifacts(rt, ear.take(rt), told)
			if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
				require.NoError(rt, p.Close())
				p = d.open(rt)
				ear = listen(p)
			}
		}
		for node, docs := range told {
			want := map[string]string{}
			if n := o.nodes[node]; n != nil && o.registered[node] {
				want = n.told()
			}
			require.Equal(rt, want, docs, "what %s was told", node)
			require.Equal(rt, want, documentsOf(rt, p, node, o.registered[node]), "what %s holds", node)
		}
		requireEqualToARebuild(rt, p, j.msgs)
	})
}

// hearArtifacts folds edges into what nodes were told.
func hearArtifacts(t require.TestingT, edges []Edge, told map[string]map[string]string) {
	for _, e := range edges {
		require.Equal(t, uuid.Nil, e.Policy)
		name := e.Kind + "." + e.Name
		for _, n := range nodeIDs(e.Have) {
			require.Equal(t, e.Fingerprint, compiler.Fingerprint(sha256.Sum256(e.Payload)))
			require.NotEqual(t, told[string(n)][name], string(e.Payload), "node %s is told what it knows", n)
			told[string(n)][name] = string(e.Payload)
		}
		for _, n := range nodeIDs(e.Lost) {
			require.Contains(t, told[string(n)], name, "node %s is told to drop what it does not hold", n)
			delete(told[string(n)], name)
		}
	}
}

func documentsOf(t require.TestingT, p *Projector, node string, registered bool) map[string]string {
	docs := map[string]string{}
	p.Read(func(v *View) {
		held, ok := v.Releases().Held(policy.NodeID(node))
		require.Equal(t, registered, ok)
		for _, r := range held {
			for _, a := range r.Artifacts {
				doc, err := v.Releases().Document(a.Fingerprint)
				require.NoError(t, err)
				require.Equal(t, compiler.Fingerprint(sha256.Sum256(doc)), a.Fingerprint)
				name := a.Kind + "." + a.Name
				if r.Further {
					name += "." + r.Rete
				}
				docs[name] = string(doc)
			}
		}
	})
	return docs
}

// A withdrawal of what the node does not have leaves its sets what they are, and is
// known when it is met again.
// A rete whose artifacts were all withdrawn, and in whose place another one came, does not
// come back with a version that the node had.
func TestAReteThatWasReplacedComesBackWithANewerVersionAlone(t *testing.T) {
	p, j := openFresh(t), &journal{}
	two := spiffe("two", "k1")
	first := func(event int, version uint64) policy.Event {
		return naming(pinning(release(event, 1, "n", version, one("k1"), []string{one("k1")}), one("k1")), "one")
	}
	for _, s := range []struct {
		what string
		e    policy.Event
		want string
	}{
		{"a rete", pinning(release(1, 1, "n", 10, one("k1"), []string{one("k1")}), one("k1")), "applied"},
		{"all of it goes", withdraw(2, 1, "n", "agent", "agent"), "applied"},
		{"another one in its place", pinning(release(3, 1, "n", 11, two, []string{two}), two), "applied"},
		{"the first, at a version that the node had", first(4, 10), CodeVersionNotNewer},
		{"and at a lower one", first(5, 3), CodeVersionNotNewer},
		{"and at a newer one", first(6, 12), "applied"},
	} {
		require.Equal(t, s.want, verdict(t, p, j.add(s.e)), s.what)
	}
	requireEqualToARebuild(t, p, j.msgs)
}

func TestAWithdrawalFromAReteThatTheNodeNeverHadLeavesTheOthers(t *testing.T) {
	p, j := openFresh(t), &journal{}
	k1, k2 := one("k1"), spiffe("two", "k1")
	given := pinning(release(1, 1, "a", 1, k1, []string{k1}, "flor"), k1)
	require.Equal(t, "applied", verdict(t, p, j.add(given)))
	of := func() (all []ReleaseInfo, gave uint64) {
		p.Read(func(v *View) {
			all, _ = v.Releases().Of(tenant(1), "a")
			gave = v.Releases().Gave(tenant(1), "a", given.ID)
		})
		return all, gave
	}
	before, _ := of()
	none := naming(withdraw(2, 1, "a", kindVertex, "flor"), "two")
	for range 2 {
		require.Equal(t, "duplicate", verdict(t, p, j.add(none)))
		all, gave := of()
		require.Equal(t, before, all)
		require.EqualValues(t, 1, gave)
	}
	require.Equal(t, "duplicate", verdict(t, p, j.add(given)))
	require.Equal(t, "applied", verdict(t, p, j.add(naming(pinning(release(3, 1, "a", 1, k2, []string{k2}, "flor"), k2), "two"))))
	require.Equal(t, CodeStaleEvent, verdict(t, p, j.add(none)), "an old one takes nothing away")
	requireEqualToARebuild(t, p, j.msgs)
}

func TestPastReleasesAreFoundByVersion(t *testing.T) {
	p, j := openFresh(t), &journal{}
	k1 := one("k1")
	for i, version := range []uint64{3, 5, 9} {
		require.Equal(t, "applied", verdict(t, p, j.add(pinning(release(i+1, 1, "a", version, k1, []string{k1}, "flor"), k1))))
	}
	p.Read(func(v *View) {
		for version, want := range map[uint64]uint64{2: 0, 3: 1, 4: 1, 5: 2, 8: 2, 9: 3, 1 << 50: 3} {
			seq, ok, err := v.Releases().At(tenant(1), "a", "", version)
			require.NoError(t, err)
			require.Equal(t, want > 0, ok, version)
			require.Equal(t, want, seq, version)
		}
		_, ok, err := v.Releases().At(tenant(1), "a-b", "", 9)
		require.NoError(t, err)
		require.False(t, ok)
		require.Equal(t, []ReteInfo{{"one", 9, 1, signersOf(k1)}}, v.Releases().Retes(tenant(1)))
		all, err := v.Releases().List(tenant(1), ReleasePlace{}, 9)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.False(t, all[0].Registered)
	})
}

func TestDocumentsThatNobodyHoldsGo(t *testing.T) {
	p, j := openFresh(t), &journal{}
	k1 := one("k1")
	count := func() (n int) {
		l := loader{Projector: p}
		require.NoError(t, l.scan(keyPayload, func(_, _ []byte) error { n++; return nil }))
		return n
	}
	verdict(t, p, j.add(update(t, 100, 1, "a", "role", "web")))
	for i := range 5 {
		require.Equal(t, "applied", verdict(t, p, j.add(pinning(release(i+1, 1, "a", uint64(i+1), k1, []string{k1}, "flor", "wg"), k1))))
	}
	require.Equal(t, 3, count())
	require.Equal(t, "applied", verdict(t, p, j.add(withdraw(10, 1, "a", kindVertex, "wg"))))
	require.Equal(t, 2, count())
}

func TestTheDigestCoversArtifacts(t *testing.T) {
	k1 := one("k1")
	sums := map[[32]byte]bool{}
	for _, e := range []policy.Event{
		pinning(release(1, 1, "a", 1, k1, []string{k1}, "flor"), k1),
		pinning(release(1, 1, "a", 2, k1, []string{k1}, "flor"), k1),
		pinning(release(1, 1, "a", 2, k1, []string{k1, one("k2")}, "flor"), k1),
		withdraw(1, 1, "a", kindVertex, "flor"),
	} {
		p, j := openFresh(t), &journal{}
		verdict(t, p, j.add(e))
		d, err := p.Digest(t.Context())
		require.NoError(t, err)
		sums[d.Sum] = true
	}
	require.Len(t, sums, 4)
}
