package artifact_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/test/crashfs"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// Tests have a format of their own: the lead's payload lists signers and members
// by name, another's is any object.
var lead = artifact.Part{Kind: "agent", Name: "agent"}

type leadPayload struct {
	Trust   []string `json:"trust"`
	Members []string `json:"members"`
	Note    string   `json:"note"`
}

var format = artifact.Format{Lead: lead, Read: func(e artifact.Envelope) (c artifact.Contents, faults []error) {
	var p leadPayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return c, []error{err}
	}
	if e.Kind != lead.Kind {
		return c, nil
	}
	for _, name := range p.Trust {
		c.Signers = append(c.Signers, pinned(name))
	}
	for _, name := range p.Members {
		c.Members = append(c.Members, artifact.Part{Kind: "vertex", Name: name})
	}
	return c, nil
}}

func keyOf(name string) *artifact.Signer {
	s, err := artifact.ParseSigner(reterepo.KeyPEM(name))
	if err != nil {
		panic(err)
	}
	return s.As(name)
}

func pinned(name string) artifact.PinSigner {
	return artifact.PinSigner{SPIFFE: name, Key: keyOf(name).PublicKey()}
}

func pinOf(names ...string) artifact.Pin {
	p := artifact.Pin{Rete: "r", Node: "n1"}
	for _, name := range names {
		p.Signers = append(p.Signers, pinned(name))
	}
	return p
}

// offered makes a set: the lead, which trusts who is named, and vertex a.
func offered(version uint64, signer string, trust ...string) []artifact.Document {
	return offeredWith(version, signer, leadPayload{Trust: trust, Members: []string{"a"}})
}

func offeredWith(version uint64, signer string, p leadPayload) []artifact.Document {
	docs := []artifact.Document{sealedPart(version, signer, lead, p)}
	for _, name := range p.Members {
		docs = append(docs, sealedPart(version, signer, artifact.Part{Kind: "vertex", Name: name}, leadPayload{Note: p.Note}))
	}
	return docs
}

func sealedPart(version uint64, signer string, part artifact.Part, p leadPayload) artifact.Document {
	payload, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	text, err := keyOf(signer).SealDocument(artifact.Envelope{
		Plane: artifact.PlaneMgmt, Kind: part.Kind, Name: part.Name, Node: "n1", Version: version, GeneratedAt: time.Unix(0, 0), Payload: payload,
	})
	if err != nil {
		panic(err)
	}
	return artifact.Document{Part: part, Text: text}
}

// TestTrustMovesByVouchedSuccessors is the table of reference 5A, rule 5.
func TestTrustMovesByVouchedSuccessors(t *testing.T) {
	gen.Unraced()
	type step struct {
		docs   []artifact.Document
		trusts []string // after it; nil: it is refused
		err    error
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"a successor is added, takes over, and the first retires", []step{
			{offered(1, "k1", "k1", "k2"), []string{"k1", "k2"}, nil},
			{offered(2, "k2", "k1", "k2"), []string{"k1", "k2"}, nil},
			{offered(3, "k2", "k2"), []string{"k2"}, nil},
			{offered(4, "k1", "k1", "k2"), nil, artifact.ErrUnknownKey},
			{offered(1, "k1", "k1", "k2"), nil, artifact.ErrRollback},
		}},
		{"a successor that nobody vouched for", []step{
			{offered(1, "k2", "k1", "k2"), nil, artifact.ErrUnknownKey},
			{offered(1, "k2", "k2"), nil, artifact.ErrUnknownKey},
		}},
		{"a signer that leaves in its own set does not sign the rest of it", []step{
			{offered(1, "k1", "k2"), nil, artifact.ErrUnknownKey},
		}},
		{"a lead alone may retire its own signer, and is known again", []step{
			{offeredWith(1, "k1", leadPayload{Trust: []string{"k2"}}), []string{"k2"}, nil},
			{offeredWith(1, "k1", leadPayload{Trust: []string{"k2"}}), []string{"k2"}, nil},
			{offeredWith(2, "k1", leadPayload{Trust: []string{"k2"}}), nil, artifact.ErrUnknownKey},
		}},
		{"an equal version under another signature", []step{
			{offered(1, "k1", "k1", "k2"), []string{"k1", "k2"}, nil},
			{offered(1, "k2", "k1", "k2"), []string{"k1", "k2"}, nil},
			{offered(1, "k2", "k2"), nil, artifact.ErrForked},
		}},
		{"a vertex that is gone does not come back older", []step{
			{offeredWith(5, "k1", leadPayload{Trust: []string{"k1"}, Members: []string{"a", "b"}}), []string{"k1"}, nil},
			{offered(6, "k1", "k1"), []string{"k1"}, nil},
			{offeredWith(6, "k1", leadPayload{Trust: []string{"k1"}, Members: []string{"a", "b"}}), nil, artifact.ErrForked},
			{offeredWith(7, "k1", leadPayload{Trust: []string{"k1"}, Members: []string{"a", "b"}}), []string{"k1"}, nil},
		}},
		{"an artifact that is there twice", []step{
			{append(offered(1, "k1", "k1"), offered(1, "k1", "k1")[1]), nil, artifact.ErrNotOneSet},
		}},
		{"an artifact that nobody lists", []step{
			{append(offered(1, "k1", "k1"), sealedPart(1, "k1", artifact.Part{Kind: "vertex", Name: "b"}, leadPayload{})), nil, artifact.ErrNotOneSet},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := artifact.NewStore(pinOf("k1"))
			for i, step := range c.steps {
				next, err := s.Accept(format, step.docs)
				if step.trusts == nil {
					require.ErrorIs(t, err, step.err, "step %d", i)
					require.Nil(t, next)
					continue
				}
				require.NoError(t, err, "step %d", i)
				var names []string
				for _, k := range next.Signers() {
					names = append(names, k.SPIFFE)
				}
				require.Equal(t, step.trusts, names, "step %d", i)
				s = reread(t, next)
			}
		})
	}
}

// reread is a store as the next start finds it.
func reread(t require.TestingT, s *artifact.Store) *artifact.Store {
	text, err := s.JSON()
	require.NoError(t, err)
	again, err := artifact.ParseStore(text)
	require.NoError(t, err)
	same, err := again.JSON()
	require.NoError(t, err)
	require.Equal(t, string(text), string(same))
	return again
}

func TestARefusalNamesEveryFaultOfASet(t *testing.T) {
	docs := offeredWith(3, "k1", leadPayload{Trust: []string{"k1"}, Members: []string{"a", "b", "c"}})
	docs[1].Text = docs[1].Text[:40]
	docs[2] = sealedPart(4, "stranger", docs[2].Part, leadPayload{})
	_, err := artifact.NewStore(pinOf("k1")).Accept(format, docs[:3])
	for _, says := range []string{"vertex a: malformed", `vertex b: unknown key: "stranger"`, "vertex b: not one set: version 4 beside 3", "vertex c: not one set: it is missing"} {
		require.ErrorContains(t, err, says)
	}
	var part *artifact.PartError
	require.ErrorAs(t, err, &part)
}

// slowStore is the acceptance rule as one would tell it, over sets that are one
// and whole.
type slowStore struct {
	trusts  []string
	version uint64
	note    string
	leads   []string // whom the accepted set trusts
}

func (s *slowStore) accepts(version uint64, signer, note string, trust []string) bool {
	if !slices.Contains(s.trusts, signer) || !slices.Contains(trust, signer) {
		return false
	}
	if version < s.version || version == s.version && (note != s.note || !slices.Equal(trust, s.leads)) {
		return false
	}
	s.trusts, s.version, s.note, s.leads = trust, version, note, trust
	return true
}

func TestAcceptingEqualsTheRuleAsOneWouldTellIt(t *testing.T) {
	gen.Unraced()
	names := []string{"k1", "k2", "k3"}
	rapid.Check(t, func(t *rapid.T) {
		store, slow := artifact.NewStore(pinOf("k1")), &slowStore{trusts: []string{"k1"}}
		for range rapid.IntRange(1, 8).Draw(t, "offers") {
			version := rapid.Uint64Range(1, 4).Draw(t, "version")
			signer := rapid.SampledFrom(names).Draw(t, "signer")
			note := rapid.SampledFrom([]string{"", "x"}).Draw(t, "note")
			trust := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "trust")
			next, err := store.Accept(format, offeredWith(version, signer, leadPayload{trust, []string{"a"}, note}))
			if slow.accepts(version, signer, note, trust) {
				require.NoError(t, err)
				store = reread(t, next)
			} else {
				require.Error(t, err)
			}
			require.Equal(t, slow.version, store.Version())
		}
	})
}

func TestAStoreThatCannotBeGoneOnFromIsRefused(t *testing.T) {
	s, err := artifact.NewStore(pinOf("k1")).Accept(format, offered(1, "k1", "k1"))
	require.NoError(t, err)
	text, err := s.JSON()
	require.NoError(t, err)
	for name, c := range map[string]struct{ old, text, says string }{
		"no JSON":             {"{", "[", "malformed"},
		"an unknown field":    {`"rete"`, `"reet"`, "unknown object member"},
		"a field twice":       {`"node": "n1"`, `"node": "n1", "node": "n2"`, "duplicate"},
		"no node":             {`"node": "n1"`, `"node": ""`, "lacks a node"},
		"half a signer":       {`"spiffe_id": "k1"`, `"spiffe_id": "k1", "pubkey": "AAAA"`, "duplicate"},
		"a digest cut short":  {`"digest": "`, `"digest": "AAAA", "name": "`, "malformed"},
		"a version that fell": {`"version": 1`, `"version": -1`, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.Replace(string(text), c.old, c.text, 1)
			require.NotEqual(t, string(text), broken)
			_, err := artifact.ParseStore([]byte(broken))
			require.ErrorIs(t, err, artifact.ErrMalformed)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestACrashWhileAStoreIsKeptLeavesTheOldOrTheNew(t *testing.T) {
	const path = "state/accepted.json"
	pin := pinOf("k1")
	files := crashfs.New(true)
	require.NoError(t, files.MkdirAll("state"))
	old, err := artifact.OpenStore(files, path, pin)
	require.NoError(t, err)
	require.Zero(t, old.Version(), "there was none")
	old, err = old.Accept(format, offered(1, "k1", "k1"))
	require.NoError(t, err)
	require.NoError(t, old.Keep(files, path))
	next, err := old.Accept(format, offered(2, "k1", "k1"))
	require.NoError(t, err)
	whole := files.Settle(0)
	require.NoError(t, next.Keep(whole, path))
	seen := map[uint64]int{}
	for _, left := range crashfs.Afters {
		for step := 1; step <= whole.Steps(); step++ {
			at := files.Settle(step)
			require.ErrorIs(t, next.Keep(at, path), crashfs.ErrCrash)
			after := at.Crash(left)
			got, err := artifact.OpenStore(after, path, pin)
			require.NoError(t, err, "%v before step %d", left, step)
			seen[got.Version()]++
			require.NoError(t, next.Keep(after, path))
			got, err = artifact.OpenStore(after, path, pin)
			require.NoError(t, err)
			require.EqualValues(t, 2, got.Version())
		}
	}
	t.Logf("%d steps: %v", whole.Steps(), seen)
	_, err = artifact.OpenStore(whole, path, pinOf("k2"))
	var other *artifact.OtherPinError
	require.True(t, errors.As(err, &other), "%v", err)
}

func FuzzParseStore(f *testing.F) {
	s, err := artifact.NewStore(pinOf("k1")).Accept(format, offered(1, "k1", "k1"))
	if err != nil {
		f.Fatal(err)
	}
	text, err := s.JSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, doc []byte) {
		s, err := artifact.ParseStore(doc)
		if err != nil {
			return
		}
		text, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := artifact.ParseStore(text); err != nil {
			t.Fatal(fmt.Errorf("%q became %q: %w", doc, text, err))
		}
	})
}
