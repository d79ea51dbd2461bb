package artifact_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// batchVerify is what a reader does with a notice of dialect batch, written from
// the wire contract and with another library's trees.
func batchVerify(doc []byte, key ed25519.PublicKey) bool {
	var got struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Scope     string          `json:"scope"`
		KeyID     string          `json:"key_id"`
		IssuedAt  time.Time       `json:"issued_at"`
		Payload   json.RawMessage `json:"payload"`
		Signature *struct {
			Alg   string `json:"alg"`
			KeyID string `json:"key_id"`
			Leaf  uint64 `json:"leaf"`
			Path  []byte `json:"path"`
			Size  uint64 `json:"size"`
			Value []byte `json:"value"`
		} `json:"signature"`
	}
	if json.Unmarshal(doc, &got) != nil {
		return false
	}
	s := got.Signature
	got.Signature = nil
	signed, err := json.Marshal(got)
	if err != nil || s.KeyID != got.KeyID {
		return false
	}
	signed = append(bytes.TrimSuffix(signed, []byte(`,"signature":null}`)), '}')
	if s.Alg == "ed25519" {
		return ed25519.Verify(key, signed, s.Value)
	}
	var path [][]byte
	for p := s.Path; len(p) > 0; p = p[32:] {
		path = append(path, p[:32])
	}
	leaf := sha256.Sum256(append([]byte{0}, signed...))
	root, err := proof.RootFromInclusionProof(rfc6962.DefaultHasher, s.Leaf, s.Size, leaf[:], path)
	text := append(binary.BigEndian.AppendUint64([]byte("edict/batch/v1\n"), s.Size), root...)
	return err == nil && s.Alg == "ed25519-merkle" && ed25519.Verify(key, text, s.Value)
}

// run are n notices of different nodes under one signature.
func noticeRun(s *artifact.Signer, n int) (docs [][]byte) {
	r := artifact.NewNoticeRun(s)
	list := make([]artifact.Notice, n)
	for i := range list {
		list[i] = notice()
		list[i].ID, list[i].Scope = fmt.Sprintf("node-%d.42", i), fmt.Sprintf("node:node-%d", i)
		list[i].Payload = artifact.NoticePayload(fmt.Appendf(nil, `{"i":%d,"t":"<>"}`, i))
		r.Add(list[i])
	}
	signed := r.Sign()
	for i := range list {
		docs = append(docs, signed.AppendNotice(nil, i, list[i]))
	}
	return docs
}

func TestNoticesOfARunVerifyAlone(t *testing.T) {
	gen.Unraced()
	s, stranger := signer(t), signer(t)
	for _, n := range runSizes() {
		for i, doc := range noticeRun(s, n) {
			require.True(t, batchVerify(doc, s.PublicKey()), "%d of %d: %s", i, n, doc)
			require.False(t, batchVerify(doc, stranger.PublicKey()))
			var cut bytes.Buffer // SSE may cut it into lines between tokens
			require.NoError(t, json.Indent(&cut, doc, "", " "))
			got, err := trusting(s, artifact.PlanePolicy).Check(cut.Bytes(), at)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("node-%d.42", i), got.ID)
		}
	}
	doc := s.AppendNoticeIn(policy.DialectBatch, nil, notice())
	require.True(t, batchVerify(doc, s.PublicKey()))
	require.Contains(t, string(doc), `,"signature":{"alg":"ed25519","key_id":"`+s.KeyID()+`","value":"`)
}

// A run is empty after it was signed, and what it signed before stays.
func TestARunIsUsedAgain(t *testing.T) {
	s := signer(t)
	r := artifact.NewNoticeRun(s)
	n := notice()
	r.Add(n)
	r.Add(n)
	first := r.Sign()
	require.Zero(t, r.Len())
	r.Add(n)
	require.Equal(t, 1, r.Len())
	require.True(t, batchVerify(r.Sign().AppendNotice(nil, 0, n), s.PublicKey()))
	require.True(t, batchVerify(first.AppendNotice(nil, 1, n), s.PublicKey()))
}

func TestCheckRefusesANoticeOfARun(t *testing.T) {
	s, stranger := signer(t), signer(t)
	docs := noticeRun(s, 5)
	doc := string(docs[2])
	set := trusting(s, artifact.PlanePolicy)
	require.NoError(t, set.Add(artifact.PlanePolicy, stranger.KeyID(), stranger.PublicKey(), time.Time{}))
	edit := func(old, new string) string {
		require.Contains(t, doc, old)
		return strings.Replace(doc, old, new, 1)
	}
	signature := func(doc []byte) string {
		_, after, _ := bytes.Cut(doc, []byte(`,"signature":`))
		return string(after)
	}
	alone := string(noticeRun(s, 1)[0])
	for name, c := range map[string]struct {
		doc  string
		want error
	}{
		"another payload":                      {edit(`"i":2`, `"i":3`), artifact.ErrBadSignature},
		"another node's id":                    {edit(`"node-2.42"`, `"node-3.42"`), artifact.ErrBadSignature},
		"another time":                         {edit(`:00.12Z`, `:00.13Z`), artifact.ErrBadSignature},
		"another leaf":                         {edit(`"leaf":2`, `"leaf":3`), artifact.ErrBadSignature},
		"another size":                         {edit(`"size":5`, `"size":6`), artifact.ErrBadSignature},
		"the proof of another notice":          {edit(signature(docs[2]), signature(docs[3])), artifact.ErrBadSignature},
		"another trusted key in the signature": {edit(`"alg":"ed25519-merkle","key_id":"`+s.KeyID(), `"alg":"ed25519-merkle","key_id":"`+stranger.KeyID()), artifact.ErrBadSignature},
		"the run's signature as a plain one":   {edit(signature(docs[2]), signature(docs[2])[strings.Index(signature(docs[2]), `"value":`)+8:]), artifact.ErrMalformed},
		"an algorithm that nobody knows":       {edit(`"alg":"ed25519-merkle"`, `"alg":"none"`), artifact.ErrMalformed},
		"no algorithm":                         {strings.Replace(alone, `"alg":"ed25519",`, ``, 1), artifact.ErrMalformed},
		"another algorithm, without a proof":   {strings.Replace(alone, `"alg":"ed25519",`, `"alg":"rsa",`, 1), artifact.ErrBadSignature},
		"an empty object":                      {edit(signature(docs[2]), `{}}`), artifact.ErrMalformed},
		"a proof without its path":             {edit(`"leaf":2,`, ``), artifact.ErrMalformed},
		"a number for a signature":             {edit(signature(docs[2]), `7}`), artifact.ErrMalformed},
		"null for a signature":                 {edit(signature(docs[2]), `null}`), artifact.ErrUnsigned},
		"a signature without a value":          {strings.Replace(alone, `"value":"`, `"x":"`, 1), artifact.ErrUnsigned},
		"a plain signature of another notice":  {strings.Replace(alone, `"i":0`, `"i":1`, 1), artifact.ErrBadSignature},
	} {
		_, err := set.Check([]byte(c.doc), at)
		require.ErrorIs(t, err, c.want, name)
	}
	for name, old := range map[string]string{"of a run": doc, "alone": alone} {
		_, err := set.Check([]byte(old), at.Add(artifact.NoticeWindow+time.Second))
		require.ErrorIs(t, err, artifact.ErrStale, name)
	}
}

// The bytes that readers of dialect batch meet.
func TestNoticesOfARunAreGolden(t *testing.T) {
	docs := noticeRun(goldenKey(t), 3)
	sum := sha256.New()
	for _, d := range docs {
		sum.Write(d)
	}
	require.Equal(t, `{"id":"node-2.42","type":"policy_updated","scope":"node:node-2","key_id":"ed25519:56475aa75463474c","issued_at":"2026-11-20T12:00:00.12Z","payload":{"i":2,"t":"\u003c\u003e"},`+
		`"signature":{"alg":"ed25519-merkle","key_id":"ed25519:56475aa75463474c","leaf":2,"path":"W3hYGxBErvBliVgLBlzs0QF7cl8qK155nYFjkQtfrLM=","size":3,"value":"/U2PBNL9HBn7jZ6qvoT5BxJLF88QVHfb11Veqodsz6Kt3/PfaQK4es2Hj+cm5YVhOja/6WVu0/o7nKoVlfiPAw=="}}`, string(docs[2]))
	require.Equal(t, "4Wvwez8V/6hNYJ8CgyT8as78c9OJzPs0SvJdufZpQQI=", base64.StdEncoding.EncodeToString(sum.Sum(nil)))
}

// A word to pull is an envelope like any other: alone and in a run with rules.
func TestStateWordsOpen(t *testing.T) {
	s := signer(t)
	list := fanOut(5, prepared(t, 1))
	word := artifact.PrepareState(artifact.ReasonDatapath)
	for _, i := range []int{0, 2, 4} {
		list[i].Rules = word
	}
	for _, list := range [][]artifact.Message{list, list[:1]} {
		for i, doc := range sealed(t, s, list) {
			e, err := trusting(s, artifact.PlanePolicy).Open(doc)
			require.NoError(t, err)
			require.Equal(t, list[i].Version, e.Version)
			require.Equal(t, string(list[i].Node), e.Node)
			if list[i].Rules != word {
				require.Equal(t, artifact.KindPolicy, e.Kind)
				continue
			}
			require.Equal(t, artifact.KindState, e.Kind)
			require.Equal(t, artifact.ReasonDatapath, e.Name)
			p, err := artifact.ParseStatePayload(e.Payload)
			require.NoError(t, err)
			require.Equal(t, artifact.StatePayload{NodeID: list[i].Node, Reason: artifact.ReasonDatapath}, p)
			require.Equal(t, string(p.Append(nil)), string(e.Payload))
		}
	}
	for _, bad := range []string{`{}`, `{"node_id":"N","reason":"x"}`, `{"node_id":"n","reason":"x","more":1}`, `[]`} {
		_, err := artifact.ParseStatePayload([]byte(bad))
		require.Error(t, err, bad)
	}
}

func BenchmarkNoticeRun(b *testing.B) {
	s, err := artifact.GenerateSigner()
	require.NoError(b, err)
	n := notice()
	n.Payload = bytes.Repeat([]byte("x"), 900)
	r := artifact.NewNoticeRun(s)
	var buf []byte
	for b.Loop() {
		for range artifact.MaxRun {
			r.Add(n)
		}
		signed := r.Sign()
		for i := range artifact.MaxRun {
			buf = signed.AppendNotice(buf[:0], i, n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*artifact.MaxRun), "ns/notice")
}
