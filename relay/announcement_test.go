package relay

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
	"github.com/stretchr/testify/require"
)

func newController(w http.ResponseWriter) *http.ResponseController {
	return http.NewResponseController(w)
}

func TestAnAnnouncementIsAnEnvelopeANodeCanOpen(t *testing.T) {
	store := newFakeStore(&fakeLog{})
	box := store.Outbox()
	defer box.Close()
	s := newSealer(artifact.NewKeyring(testSigner), "17", 30*day, 8<<20)
	trust := artifact.NewTrustSet()
	require.NoError(t, trust.Add(artifact.PlanePolicy, testSigner.KeyID(), testSigner.PublicKey(), time.Time{}))
	for name, a := range map[string]announcement{
		"a row":       {fingerprint: rulesets[1].Fingerprint},
		"a tombstone": {fingerprint: compiler.Empty.Fingerprint, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			a.key = Key{42, policyIDs[0].String(), "web-1"}
			a.policy, a.revision, a.time = policyIDs[0], policyIDs[2], timeOf(42)
			r, err := s.prepared(a, box)
			require.NoError(t, err)
			m := sealed(t, s, line{announcement: a, rules: r})[0]
			require.Equal(t, "edict.node.web-1."+policyIDs[0].String(), m.Subject)
			require.Equal(t, []string{"Edict-Id", "web-1." + policyIDs[0].String() + ".42", "Edict-Log-Seq", "42", "Edict-Log", "17"}, m.Header)
			require.False(t, m.HasExpect)
			require.Equal(t, a.gone, m.TTL == 30*day)

			e, err := trust.Open(m.Body)
			require.NoError(t, err)
			require.NoError(t, e.Expect(artifact.Identity{Node: "web-1", Plane: "policy", Kind: "policy", Name: policyIDs[0].String()}))
			require.Equal(t, uint64(42), e.Version)
			require.True(t, e.GeneratedAt.Equal(timeOf(42)))
			p, err := artifact.ParsePolicyPayload(e.Payload)
			require.NoError(t, err)
			require.NoError(t, p.Verify())
			require.Equal(t, policyIDs[2], p.RevisionID)
			require.Equal(t, a.gone, string(p.Rules) == "[]")
			says, known := fingerprintOf(m.Body)
			require.True(t, known)
			require.Equal(t, a.fingerprint, says)
		})
	}
}

// sealed are the messages of lines.
func sealed(t *testing.T, s *sealer, lines ...line) []streams.Outgoing {
	t.Helper()
	out := make([]streams.Outgoing, len(lines))
	require.NoError(t, s.seal(lines, out))
	return out
}

func TestABatchIsSealedInRunsAndEachMessageVerifiesAlone(t *testing.T) {
	s := newSealer(artifact.NewKeyring(testSigner), "17", 30*day, 8<<20)
	rules, err := artifact.PrepareRules(rulesets[1].Payload, 0)
	require.NoError(t, err)
	for _, n := range []int{1, 2, 64, 65, 130, 1000} {
		lines := make([]line, n)
		for i := range lines {
			lines[i] = line{announcement: announcement{
				key:    Key{42, policyIDs[0].String(), policy.NodeID(fmt.Sprintf("n%04d", i))},
				policy: policyIDs[0], revision: policyIDs[2], fingerprint: rules.Fingerprint(), time: timeOf(42),
			}, rules: rules}
		}
		signatures := map[string]int{}
		for i, m := range sealed(t, s, lines...) {
			trust := artifact.NewTrustSet() // remembers nothing of the others
			require.NoError(t, trust.Add(artifact.PlanePolicy, testSigner.KeyID(), testSigner.PublicKey(), time.Time{}))
			e, err := trust.Open(m.Body)
			require.NoError(t, err)
			require.Equal(t, string(lines[i].key.Node), e.Node, "the order is kept")
			signatures[e.Signature.Value]++
			if n%artifact.MaxRun == 1 && i == n-1 {
				require.Equal(t, artifact.AlgEd25519, e.Signature.Alg, "a run of one is signed plainly")
			} else {
				require.Equal(t, artifact.AlgEd25519Merkle, e.Signature.Alg)
			}
		}
		require.Len(t, signatures, (n+artifact.MaxRun-1)/artifact.MaxRun, "one signature for a run")
	}
}

func TestRulesThatAreNotThoseOfTheirFingerprintAreNotTold(t *testing.T) {
	store := newFakeStore(&fakeLog{})
	box := store.Outbox()
	defer box.Close()
	_, err := newSealer(artifact.NewKeyring(testSigner), "17", day, 8<<20).prepared(announcement{fingerprint: rulesets[1].Fingerprint}, lyingBox{box})
	require.ErrorContains(t, err, "rebuild")
}

// lyingBox has the rules of another fingerprint.
type lyingBox struct{ Outbox }

func (lyingBox) Payload(compiler.Fingerprint) ([]byte, error) { return rulesets[2].Payload, nil }

func TestAnEdgeExpandsInNodeOrder(t *testing.T) {
	e := projector.StoredEdge{
		Seq: 3, Policy: policyIDs[0], Fingerprint: rulesets[1].Fingerprint,
		Have: []policy.NodeID{"b", "d", "e"}, Lost: []policy.NodeID{"a", "c"},
	}
	var order string
	last := Key{}
	for a := range expand(e) {
		order += string(a.key.Node)
		require.Positive(t, a.key.Compare(last))
		last = a.key
		require.Equal(t, a.gone, a.fingerprint == compiler.Empty.Fingerprint)
	}
	require.Equal(t, "abcde", order)
}

func TestFencesAreOrderedAndNamedByWhatTheyState(t *testing.T) {
	ascending := []Key{{}, {3, policyIDs[0].String(), "a"}, {3, policyIDs[0].String(), "b"}, {3, policyIDs[1].String(), "a"}, End(3), {4, "", ""}, End(4)}
	for i := 1; i < len(ascending); i++ {
		require.Negative(t, ascending[i-1].Compare(ascending[i]))
		require.Positive(t, ascending[i].Compare(ascending[i-1]))
	}
	f := Fence{Log: "1", Owner: "o", Epoch: 2, Mode: Sync, After: End(3)}
	back, err := ParseFence(f.Body())
	require.NoError(t, err)
	require.Equal(t, f, back)
	ids := map[string]bool{}
	for _, other := range []Fence{
		f,
		{"2", "o", 2, Sync, End(3)},
		{"1", "x", 2, Sync, End(3)},
		{"1", "o", 3, Sync, End(3)},
		{"1", "o", 2, Follow, End(3)},
		{"1", "o", 2, Sync, End(4)},
		{"1", "o", 2, Sync, ascending[1]},
	} {
		ids[other.MsgID(0)] = true
		ids[other.MsgID(1)] = true
	}
	require.Len(t, ids, 14)
	_, err = ParseFence([]byte(`{"mode":"dream"}`))
	require.ErrorContains(t, err, "newer")
}

func TestABatchIsFencesThenAnnouncementsThenMarks(t *testing.T) {
	w := newWorld(1, 0)
	a := w.workers[0]
	for n := range nodeIDs {
		w.label(n, 0)
	}
	w.revise(0, 1, 1)
	a.store.foldAll()
	require.NoError(t, a.a.readFences(t.Context(), a.a.parts))
	taken, err := a.a.claim(t.Context(), a.a.parts, map[*partition]outcome{})
	require.NoError(t, err)
	require.True(t, a.setOut(taken...))
	var kinds []string
	w.server.fate = func(msgs []streams.Outgoing) fate {
		for _, m := range msgs {
			_, _, node := splitNodeSubject(m.Subject)
			_, fence := fencePartition(m.Subject, worldParts)
			switch {
			case fence:
				require.True(t, m.HasExpect)
				require.NotEmpty(t, m.MsgID)
				kinds = append(kinds, "fence")
			case node:
				kinds = append(kinds, "node")
			default:
				require.Zero(t, m.TTL, "a sync mark is kept")
				kinds = append(kinds, "mark")
			}
		}
		return deliver
	}
	require.True(t, a.step())
	require.Equal(t, []string{"fence", "fence", "node", "node", "node", "node", "mark", "mark"}, kinds)
	w.clean(t)
}

func TestAnArtifactThatNoMessageHasRoomForIsToldWithoutItsDocument(t *testing.T) {
	box := &fakeBox{}
	doc := documents[1]
	a := announcement{key: artifactKey(7, artifactName, "n0"), artifact: artifactName, fingerprint: compiler.FingerprintOf(doc), time: timeOf(7)}
	for most, want := range map[int]bool{8 << 20: true, len(doc): false} {
		s := newSealer(artifact.NewKeyring(testSigner), "17", day, most)
		l, err := s.line(a, box)
		require.NoError(t, err)
		m := sealed(t, s, l)[0]
		require.Equal(t, "edict.node.n0.artifact.vertex.flor", m.Subject)
		fp, gone, known := artifactIn(m.Body)
		require.True(t, known)
		require.False(t, gone)
		require.Equal(t, a.fingerprint, fp, "a sync finds it told")
		told, err := readTold(m.Body)
		require.NoError(t, err)
		require.Equal(t, want, told.payload != nil)
		require.Equal(t, !want, told.pull, "the node is told to pull")
	}
}
