package artifact_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"pgregory.net/rapid"
)

func prepared(t testing.TB, rules int) *artifact.PreparedRules {
	r, err := artifact.PrepareRules(samplePayload(rules).Rules, 0)
	require.NoError(t, err)
	return r
}

// fanOut tells n nodes the same.
func fanOut(n int, rules *artifact.PreparedRules) []artifact.Message {
	p := samplePayload(0)
	list := make([]artifact.Message, n)
	for i := range list {
		list[i] = artifact.Message{
			Node: policy.NodeID(fmt.Sprintf("node-%05d", i)), Policy: p.PolicyID, Revision: p.RevisionID,
			Version: 42, GeneratedAt: at, Rules: rules,
		}
	}
	return list
}

// sealed keeps what SealRuns emits, in order.
func sealed(t require.TestingT, s *artifact.Signer, list []artifact.Message) [][]byte {
	var docs [][]byte
	_, err := s.SealRuns(nil, list, func(i int, wire []byte) {
		require.Equal(t, len(docs), i)
		docs = append(docs, wire)
	})
	require.NoError(t, err)
	require.Len(t, docs, len(list))
	return docs
}

// envelope is what an announcement says, spelt out the slow way.
func envelope(a artifact.Message, rules []byte) artifact.Envelope {
	return artifact.Envelope{
		SchemaVersion: artifact.SchemaVersion,
		Plane:         artifact.PlanePolicy, Kind: artifact.KindPolicy, Name: a.Policy.String(),
		Version: a.Version, Node: string(a.Node), GeneratedAt: a.GeneratedAt.UTC(),
		Payload: artifact.PolicyPayload{
			NodeID: a.Node, PolicyID: a.Policy, RevisionID: a.Revision,
			Fingerprint: sha256.Sum256(rules), Rules: rules,
		}.Append(nil),
	}
}

// checkProof verifies a message of a run with the library's arithmetic and
// nothing of ours: leaf, path, root, signed text.
func checkProof(t require.TestingT, set *artifact.TrustSet, s *artifact.Signer, signed []byte, sig artifact.Signature) {
	flat, err := base64.StdEncoding.Strict().DecodeString(sig.Path)
	require.NoError(t, err)
	var path [][]byte
	for ; len(flat) > 0; flat = flat[32:] {
		path = append(path, flat[:32])
	}
	hasher := rfc6962.DefaultHasher
	leaf := hasher.HashLeaf(signed)
	root, err := proof.RootFromInclusionProof(hasher, uint64(sig.Leaf), uint64(sig.Size), leaf, path)
	require.NoError(t, err)
	require.NoError(t, proof.VerifyInclusion(hasher, uint64(sig.Leaf), uint64(sig.Size), leaf, path, root))
	text := binary.BigEndian.AppendUint64([]byte("edict/batch/v1\n"), uint64(sig.Size))
	want := base64.StdEncoding.EncodeToString(s.Sign(append(text, root...)))
	require.Equal(t, want, sig.Value)
}

// runSizes are those of small trees, and those around the larger ones that are full.
func runSizes() (sizes []int) {
	for n := 1; n <= artifact.MaxRun; n++ {
		if full := n&(n-1) == 0 || n&(n+1) == 0 || (n-1)&(n-2) == 0; n < 14 || full || n%11 == 0 {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

func TestRunsOfEverySize(t *testing.T) {
	gen.Unraced()
	s := signer(t)
	rules := prepared(t, 2)
	for _, n := range runSizes() {
		list := fanOut(n, rules)
		warm, docs := trusting(s, artifact.PlanePolicy), sealed(t, s, list)
		for i, doc := range docs {
			e, err := trusting(s, artifact.PlanePolicy).Open(doc)
			require.NoError(t, err, "message %d of %d verifies alone", i, n)
			_, err = warm.Open(doc)
			require.NoError(t, err, "message %d of %d verifies after those before it", i, n)

			want := envelope(list[i], samplePayload(2).Rules)
			want.Signature = e.Signature
			require.Equal(t, want, e)
			require.Equal(t, s.KeyID(), e.Signature.KeyID)
			signed, err := e.SigningBytes()
			require.NoError(t, err)
			if n == 1 {
				plain, err := s.Seal(want)
				require.NoError(t, err)
				require.Equal(t, string(plain), string(doc), "a run of one is signed plainly")
				continue
			}
			require.Equal(t, artifact.AlgEd25519Merkle, e.Signature.Alg)
			require.Equal(t, i, e.Signature.Leaf)
			require.Equal(t, n, e.Signature.Size)
			checkProof(t, warm, s, signed, e.Signature)
		}
	}
}

func TestLongListsAreCutIntoRuns(t *testing.T) {
	s := signer(t)
	set := trusting(s, artifact.PlanePolicy)
	for i, doc := range sealed(t, s, fanOut(2*artifact.MaxRun+1, prepared(t, 1))) {
		e, err := set.Open(doc)
		require.NoError(t, err)
		if i == 2*artifact.MaxRun {
			require.Equal(t, artifact.AlgEd25519, e.Signature.Alg)
			continue
		}
		require.Equal(t, artifact.MaxRun, e.Signature.Size)
		require.Equal(t, i%artifact.MaxRun, e.Signature.Leaf)
	}
	require.Empty(t, sealed(t, s, nil))
}

func anyUUID(t *rapid.T, label string) uuid.UUID {
	return uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label))
}

func anyAnnouncement(t *rapid.T, rules []*artifact.PreparedRules) artifact.Message {
	zone := time.FixedZone("", rapid.IntRange(-12, 12).Draw(t, "zone")*3600)
	return artifact.Message{
		Node:        policy.NodeID(rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`).Draw(t, "node")),
		Policy:      anyUUID(t, "policy"),
		Revision:    anyUUID(t, "revision"),
		Version:     rapid.Uint64Range(0, artifact.MaxInteger).Draw(t, "version"),
		GeneratedAt: time.Unix(rapid.Int64Range(-1e9, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).In(zone),
		Rules:       rapid.SampledFrom(rules).Draw(t, "rules"),
	}
}

// anyRun draws announcements that share what those of a fan-out share, until a
// draw changes some of it.
func anyRun(t *rapid.T, rules []*artifact.PreparedRules) []artifact.Message {
	list := make([]artifact.Message, rapid.IntRange(1, artifact.MaxRun+2).Draw(t, "messages"))
	for i := range list {
		next := anyAnnouncement(t, rules)
		if i > 0 {
			was := list[i-1]
			switch rapid.IntRange(0, 6).Draw(t, "what changes") {
			case 0: // everything
			case 1:
				was.Policy = next.Policy
				next = was
			case 2:
				was.Revision = next.Revision
				next = was
			case 3:
				was.Version = next.Version
				next = was
			case 4:
				was.GeneratedAt = next.GeneratedAt
				next = was
			case 5:
				was.Rules = next.Rules
				next = was
			case 6:
				was.Node = next.Node
				next = was
			}
		}
		list[i] = next
	}
	return list
}

func TestSealedBytesEqualTheCanonicalForm(t *testing.T) {
	gen.Unraced()
	s := signer(t)
	var rules []*artifact.PreparedRules
	payload := map[*artifact.PreparedRules][]byte{}
	for _, n := range []int{0, 1, 3} {
		r := prepared(t, n)
		rules = append(rules, r)
		payload[r] = samplePayload(n).Rules
	}
	rapid.Check(t, func(t *rapid.T) {
		list := anyRun(t, rules)
		set := trusting(s, artifact.PlanePolicy)
		for i, doc := range sealed(t, s, list) {
			opened, err := set.Open(doc)
			require.NoError(t, err)
			e := envelope(list[i], payload[list[i].Rules])
			signed, err := e.SigningBytes()
			require.NoError(t, err)

			// What was signed: the wire document marshalled without its signature.
			var members map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(doc, &members))
			delete(members, "signature")
			rest, err := json.Marshal(members)
			require.NoError(t, err)
			canonical, err := artifact.Canonical(rest)
			require.NoError(t, err)
			require.Equal(t, string(signed), string(canonical))
			if opened.Signature.Alg == artifact.AlgEd25519Merkle {
				checkProof(t, set, s, canonical, opened.Signature)
			}

			// What travels: names in the order of RFC 8785, the signature's too,
			// and the payload verbatim.
			require.Equal(t, string(e.Payload), string(opened.Payload))
			payload, err := artifact.Canonical(e.Payload)
			require.NoError(t, err)
			whole, err := artifact.Canonical(doc)
			require.NoError(t, err)
			fast, err := json.Marshal(opened.Signature)
			require.NoError(t, err)
			require.Contains(t, string(doc), `,"signature":`+string(fast)+`,"version":`)
			require.Equal(t, string(whole), replaceOnce(t, string(doc), string(e.Payload), string(payload)))
		}
	})
}

func replaceOnce(t require.TestingT, s, old, new string) string {
	before, after, found := strings.Cut(s, old)
	require.True(t, found, "%s has no %s", s, old)
	require.NotContains(t, after, old)
	return before + new + after
}

func TestAnnouncementsThatAreNotSigned(t *testing.T) {
	s := signer(t)
	for name, breakIt := range map[string]func(*artifact.Message){
		"a node id that is not one":    func(a *artifact.Message) { a.Node = `x","y":"` },
		"no node":                      func(a *artifact.Message) { a.Node = "" },
		"a version beyond 2^53-1":      func(a *artifact.Message) { a.Version = 1 << 53 },
		"a year of five digits":        func(a *artifact.Message) { a.GeneratedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"no rules, not even a bare []": func(a *artifact.Message) { a.Rules = nil },
	} {
		t.Run(name, func(t *testing.T) {
			list := fanOut(artifact.MaxRun+2, prepared(t, 1))
			breakIt(&list[artifact.MaxRun])
			dst, err := s.SealRuns([]byte("kept"), list, func(int, []byte) { t.Error("emitted") })
			require.ErrorContains(t, err, list[0].Policy.String())
			require.Equal(t, "kept", string(dst))
		})
	}
	for _, rules := range []string{``, `{}`, `null`, `[`, `[{"a":1,"a":2}]`, `[1.5]`} {
		_, err := artifact.PrepareRules([]byte(rules), 0)
		require.Error(t, err, rules)
	}
}

func TestMessagesStayAsTheyWereEmitted(t *testing.T) {
	s := signer(t)
	var docs [][]byte
	var texts []string
	emit := func(_ int, wire []byte) {
		docs, texts = append(docs, wire), append(texts, string(wire))
	}
	list := fanOut(artifact.MaxRun+3, prepared(t, 2))
	dst, err := s.SealRuns(make([]byte, 0, 1000), list, emit)
	require.NoError(t, err)
	_, err = s.SealRuns(dst, list[:2], emit)
	require.NoError(t, err)
	for i := range docs {
		_ = append(docs[i], "something after it"...)
	}
	for i := range docs {
		require.Equal(t, texts[i], string(docs[i]))
	}
}
