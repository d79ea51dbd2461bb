package artifact_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"pgregory.net/rapid"
)

// resign puts another signature on a sealed document.
func resign(t testing.TB, doc []byte, change func(*artifact.Signature)) string {
	var e struct {
		Signature artifact.Signature `json:"signature"`
	}
	require.NoError(t, json.Unmarshal(doc, &e))
	old, err := json.Marshal(e.Signature)
	require.NoError(t, err)
	change(&e.Signature)
	sig, err := json.Marshal(e.Signature)
	require.NoError(t, err)
	require.NotEqual(t, string(old), string(sig))
	require.Contains(t, string(doc), string(old))
	return strings.Replace(string(doc), string(old), string(sig), 1)
}

// onPath changes the raw path of a signature.
func onPath(change func(path []byte) []byte) func(*artifact.Signature) {
	return func(s *artifact.Signature) {
		path, err := base64.StdEncoding.DecodeString(s.Path)
		if err != nil {
			panic(err)
		}
		s.Path = base64.StdEncoding.EncodeToString(change(path))
	}
}

func TestOpenRefusesAMessageOfARun(t *testing.T) {
	s, stranger := signer(t), signer(t)
	const size, at = 11, 6 // a path of four, and neighbours with shorter ones
	docs := sealed(t, s, fanOut(size, prepared(t, 2)))
	doc := docs[at]
	other := openSignature(t, s, docs[at+1])
	elsewhere := openSignature(t, s, sealed(t, s, fanOut(size, prepared(t, 1)))[at])
	edit := func(old, new string) string {
		require.Contains(t, string(doc), old)
		return strings.Replace(string(doc), old, new, 1)
	}
	sign := func(change func(*artifact.Signature)) string { return resign(t, doc, change) }
	cases := []struct {
		name string
		doc  string
		want error
	}{
		{"the leaf before", sign(func(s *artifact.Signature) { s.Leaf-- }), artifact.ErrBadSignature},
		{"the leaf after", sign(func(s *artifact.Signature) { s.Leaf++ }), artifact.ErrBadSignature},
		{"a leaf below the run, of the first message", resign(t, docs[0], func(s *artifact.Signature) { s.Leaf = -1 }), artifact.ErrBadSignature},
		{"a leaf beyond the run, of the last message", resign(t, docs[size-1], func(s *artifact.Signature) { s.Leaf = size }), artifact.ErrBadSignature},
		{"a leaf below the run", sign(func(s *artifact.Signature) { s.Leaf = -1 }), artifact.ErrBadSignature},
		{"a leaf beyond the run", sign(func(s *artifact.Signature) { s.Leaf = size }), artifact.ErrBadSignature},
		{"a leaf that wraps round to the right one", sign(func(s *artifact.Signature) { s.Leaf += 16 }), artifact.ErrBadSignature},
		{"a leaf that is no integer", edit(`"leaf":6`, `"leaf":6.5`), artifact.ErrMalformed},
		{"a leaf beyond any integer", edit(`"leaf":6`, `"leaf":99999999999999999999`), artifact.ErrMalformed},
		{"a smaller run", sign(func(s *artifact.Signature) { s.Size-- }), artifact.ErrBadSignature},
		{"a larger run with a path of the same length", sign(func(s *artifact.Signature) { s.Size++ }), artifact.ErrBadSignature},
		{"a run of none", sign(func(s *artifact.Signature) { s.Size = 0 }), artifact.ErrBadSignature},
		{"a run of one", sign(func(s *artifact.Signature) { s.Leaf, s.Size, s.Path = 0, 1, "" }), artifact.ErrBadSignature},
		{"a run of 65", sign(func(s *artifact.Signature) { s.Size = artifact.MaxRun + 1 }), artifact.ErrBadSignature},
		{"a path without its first hash", sign(onPath(func(p []byte) []byte { return p[32:] })), artifact.ErrBadSignature},
		{"a path without its last hash", sign(onPath(func(p []byte) []byte { return p[:len(p)-32] })), artifact.ErrBadSignature},
		{"a path without its last byte", sign(onPath(func(p []byte) []byte { return p[:len(p)-1] })), artifact.ErrBadSignature},
		{"a path with a byte more", sign(onPath(func(p []byte) []byte { return append(p, 0) })), artifact.ErrBadSignature},
		{"a path with a hash more", sign(onPath(func(p []byte) []byte { return append(p, p[:32]...) })), artifact.ErrBadSignature},
		{"a path with a hash before it", sign(onPath(func(p []byte) []byte { return append(slices.Clone(p[:32]), p...) })), artifact.ErrBadSignature},
		{"a path with a byte before it", sign(onPath(func(p []byte) []byte { return append([]byte{0}, p...) })), artifact.ErrBadSignature},
		{"a path with a bit turned", sign(onPath(func(p []byte) []byte { p[40] ^= 1; return p })), artifact.ErrBadSignature},
		{"a path from the root down", sign(onPath(func(p []byte) []byte {
			var r []byte
			for c := range slices.Chunk(p, 32) {
				r = append(slices.Clone(c), r...)
			}
			return r
		})), artifact.ErrBadSignature},
		{"no path", sign(func(s *artifact.Signature) { s.Path = "" }), artifact.ErrBadSignature},
		{"a very long path", sign(func(s *artifact.Signature) { s.Path = strings.Repeat("A", 1<<16) }), artifact.ErrBadSignature},
		{"a path that is not base64", sign(func(s *artifact.Signature) { s.Path = "!" + s.Path[1:] }), artifact.ErrBadSignature},
		{"a path with line breaks", sign(func(s *artifact.Signature) { s.Path = s.Path[:4] + "\n" + s.Path[4:] }), artifact.ErrBadSignature},
		{"the path of another leaf", sign(func(s *artifact.Signature) { s.Path = other.Path }), artifact.ErrBadSignature},
		{"the place and path of another leaf", sign(func(s *artifact.Signature) { *s = other }), artifact.ErrBadSignature},
		{"the signature of another run", sign(func(s *artifact.Signature) { s.Value = elsewhere.Value }), artifact.ErrBadSignature},
		{"the proof of another run", sign(func(s *artifact.Signature) { *s = elsewhere }), artifact.ErrBadSignature},
		{"a value of 63 bytes", sign(func(s *artifact.Signature) { s.Value = base64.StdEncoding.EncodeToString(make([]byte, 63)) }), artifact.ErrBadSignature},
		{"a value of zeros", sign(func(s *artifact.Signature) { s.Value = base64.StdEncoding.EncodeToString(make([]byte, 64)) }), artifact.ErrBadSignature},
		{"a key that did not sign it", sign(func(s *artifact.Signature) { s.KeyID = stranger.KeyID() }), artifact.ErrBadSignature},
		{"a key nobody knows", sign(func(s *artifact.Signature) { s.KeyID = "ed25519:0000000000000000" }), artifact.ErrUnknownKey},
		{"the plain form's name over a run's signature", sign(func(s *artifact.Signature) {
			*s = artifact.Signature{Alg: artifact.AlgEd25519, KeyID: s.KeyID, Value: s.Value}
		}), artifact.ErrBadSignature},
		{"the plain form with a proof", edit(`"alg":"ed25519-merkle"`, `"alg":"ed25519"`), artifact.ErrMalformed},
		{"an algorithm nobody knows", sign(func(s *artifact.Signature) {
			*s = artifact.Signature{Alg: "ed25519-merkle2", KeyID: s.KeyID, Value: s.Value}
		}), artifact.ErrBadSignature},
		{"no leaf", edit(`"leaf":6,`, ``), artifact.ErrMalformed},
		{"no size", edit(`"size":11,`, ``), artifact.ErrMalformed},
		{"a path that is null", edit(`"path":"`, `"path":null,"x":"`), artifact.ErrMalformed},
		{"a leaf twice", edit(`"leaf":6,`, `"leaf":6,"leaf":6,`), artifact.ErrMalformed},
		{"a leaf in another case", edit(`"leaf":6,`, `"Leaf":6,`), artifact.ErrMalformed},
		{"a signature twice", edit(`"version":42`, `"signature":{},"version":42`), artifact.ErrMalformed},
		{"a rule changed", edit(`"to":81`, `"to":82`), artifact.ErrBadSignature},
		{"a rule field twice", edit(`"to":81`, `"to":81,"to":81`), artifact.ErrMalformed},
		{"another version", edit(`"version":42`, `"version":43`), artifact.ErrBadSignature},
		{"another node", edit(`"node":"node-00006"`, `"node":"node-00007"`), artifact.ErrBadSignature},
		{"another node in the payload", edit(`"node_id":"node-00006"`, `"node_id":"node-00007"`), artifact.ErrBadSignature},
		{"a plane that takes no runs", edit(`"plane":"policy"`, `"plane":"mgmt"`), artifact.ErrBadSignature},
	}
	// Nothing may depend on whether the verifier has seen the run.
	cold, warm := func() *artifact.TrustSet {
		set := trusting(s, artifact.PlanePolicy, artifact.PlaneMgmt)
		require.NoError(t, set.Add(artifact.PlanePolicy, stranger.KeyID(), stranger.PublicKey(), time.Time{}))
		return set
	}, trusting(s, artifact.PlanePolicy, artifact.PlaneMgmt)
	require.NoError(t, warm.Add(artifact.PlanePolicy, stranger.KeyID(), stranger.PublicKey(), time.Time{}))
	for _, d := range docs {
		_, err := warm.Open(d)
		require.NoError(t, err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := cold().Open([]byte(c.doc))
			require.ErrorIs(t, err, c.want)
			_, err = warm.Open([]byte(c.doc))
			require.ErrorIs(t, err, c.want, "a remembered root does not help")
		})
	}
	_, err := warm.Open([]byte(edit(`"rules":[`, `"rules" : [ `)))
	require.NoError(t, err, "white space is not signed")
}

func openSignature(t testing.TB, s *artifact.Signer, doc []byte) artifact.Signature {
	e, err := trusting(s, artifact.PlanePolicy).Open(doc)
	require.NoError(t, err)
	return e.Signature
}

// signedRun is a sealed envelope whose signature is genuine: the root that the
// library finds for such a place and some path is signed as the root of a run.
func signedRun(t testing.TB, s *artifact.Signer, e artifact.Envelope, leaf, size, hashes int) []byte {
	signed, err := e.SigningBytes()
	require.NoError(t, err)
	var path [][]byte
	for i := range hashes {
		path = append(path, bytes.Repeat([]byte{byte(i)}, 32))
	}
	hasher := rfc6962.DefaultHasher
	root, err := proof.RootFromInclusionProof(hasher, uint64(leaf), uint64(size), hasher.HashLeaf(signed), path)
	require.NoError(t, err)
	text := binary.BigEndian.AppendUint64([]byte("edict/batch/v1\n"), uint64(size))
	plain, err := s.Seal(e)
	require.NoError(t, err)
	return []byte(resign(t, plain, func(sig *artifact.Signature) {
		*sig = artifact.Signature{
			Alg: artifact.AlgEd25519Merkle, KeyID: s.KeyID(), Leaf: leaf, Size: size,
			Value: base64.StdEncoding.EncodeToString(s.Sign(append(text, root...))),
			Path:  base64.StdEncoding.EncodeToString(bytes.Join(path, nil)),
		}
	}))
}

// Even a genuine signature over such a run is refused.
func TestRunsThatAreRefusedWhoeverSignedThem(t *testing.T) {
	s := signer(t)
	set := trusting(s, artifact.PlanePolicy, artifact.PlaneMgmt)
	cases := []struct {
		name, plane        string
		leaf, size, hashes int
		says               string // "": it is taken
	}{
		{"the smallest run", artifact.PlanePolicy, 1, 2, 1, ""},
		{"the largest run", artifact.PlanePolicy, 63, 64, 6, ""},
		{"a short path at the ragged edge", artifact.PlanePolicy, 32, 33, 1, ""},
		{"a run of one, which is signed plainly", artifact.PlanePolicy, 0, 1, 0, "leaf 0 of 1"},
		{"a run of 65, by a short path", artifact.PlanePolicy, 64, 65, 1, "leaf 64 of 65"},
		{"a run of 65, by a long path", artifact.PlanePolicy, 0, 65, 7, "leaf 0 of 65"},
		{"a plane that is signed one by one", artifact.PlaneMgmt, 1, 2, 1, "for plane policy"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := sample()
			e.Plane = c.plane
			_, err := set.Open(signedRun(t, s, e, c.leaf, c.size, c.hashes))
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, artifact.ErrBadSignature)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestAnInnerNodeIsNoLeaf(t *testing.T) {
	s := signer(t)
	docs := sealed(t, s, fanOut(4, prepared(t, 1)))
	// The upper half of the path is a good path for the inner node above.
	doc := resign(t, docs[0], func(sig *artifact.Signature) {
		onPath(func(p []byte) []byte { return p[32:] })(sig)
		sig.Leaf, sig.Size = 0, 2
	})
	_, err := trusting(s, artifact.PlanePolicy).Open([]byte(doc))
	require.ErrorIs(t, err, artifact.ErrBadSignature)
}

func TestRememberedRunsGoWithTheirKey(t *testing.T) {
	s, other := signer(t), signer(t)
	docs := sealed(t, s, fanOut(3, prepared(t, 1)))
	set := trusting(s, artifact.PlanePolicy)
	now := at
	set.Now = func() time.Time { return now }
	open := func(doc []byte) error { _, err := set.Open(doc); return err }
	require.NoError(t, open(docs[0]))

	// Another key under the old name knows nothing of the old one's runs.
	require.NoError(t, set.Add(artifact.PlanePolicy, s.KeyID(), s.PublicKey(), at))
	require.NoError(t, open(docs[0]))
	require.NoError(t, set.Add(artifact.PlanePolicy, s.KeyID(), other.PublicKey(), time.Time{}))
	require.ErrorIs(t, open(docs[0]), artifact.ErrBadSignature)

	require.NoError(t, set.Add(artifact.PlanePolicy, s.KeyID(), s.PublicKey(), at))
	require.NoError(t, open(docs[0]))
	now = at.Add(time.Nanosecond)
	require.ErrorIs(t, open(docs[0]), artifact.ErrExpiredKey)
	require.ErrorIs(t, open(docs[1]), artifact.ErrExpiredKey)
}

func TestVerifiersShareATrustSet(t *testing.T) {
	s := signer(t)
	docs := sealed(t, s, fanOut(3*artifact.MaxRun, prepared(t, 1)))
	set := trusting(s, artifact.PlanePolicy)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, doc := range docs {
				if _, err := set.Open(doc); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestATurnedBitIsNeverAnotherMessage(t *testing.T) {
	s := signer(t)
	list := fanOut(5, prepared(t, 1))
	docs := sealed(t, s, list)
	set := trusting(s, artifact.PlanePolicy)
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(docs)-1).Draw(t, "message")
		doc := slices.Clone(docs[i])
		doc[rapid.IntRange(0, len(doc)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if e, err := set.Open(doc); err == nil {
			t.Fatalf("%s was taken: %+v", doc, e)
		}
	})
}

func FuzzOpen(f *testing.F) {
	// Every fuzzing process must know the key that signed the seeds.
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	require.NoError(f, err)
	s, err := artifact.ParseSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	require.NoError(f, err)
	list := fanOut(5, prepared(f, 1))
	set := trusting(s, artifact.PlanePolicy, artifact.PlaneMgmt)
	good := map[string]bool{}
	accept := func(e artifact.Envelope) {
		signed, err := e.SigningBytes()
		require.NoError(f, err)
		good[string(signed)] = true
	}
	for i, doc := range sealed(f, s, list) {
		accept(envelope(list[i], samplePayload(1).Rules))
		f.Add(doc)
	}
	plain, err := s.Seal(sample())
	require.NoError(f, err)
	accept(sample())
	f.Add(plain)
	f.Add([]byte(`{"signature":{"alg":"ed25519-merkle","leaf":0,"path":"","size":2}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		e, err := set.Open(doc)
		if err != nil {
			return
		}
		signed, err := e.SigningBytes()
		if err != nil || !good[string(signed)] {
			t.Fatalf("%q was taken, which nobody signed (%v)", doc, err)
		}
	})
}
