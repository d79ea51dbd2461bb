package artifact_test

import (
	"crypto/sha256"
	"testing"

	"github.com/edictdev/edict/artifact"
	"github.com/stretchr/testify/require"
)

// BenchmarkSealing compares what one message of 20 rules costs: in a run, and
// alone; and what no implementation can do without.
func BenchmarkSealing(b *testing.B) {
	s := signer(b)
	rules := prepared(b, 20)
	list := fanOut(artifact.MaxRun, rules)
	doc := sealed(b, s, list)[0]
	b.Run("in runs of 64", func(b *testing.B) {
		b.ReportMetric(float64(len(doc)), "B/message")
		b.ReportAllocs()
		var dst []byte
		for n := 0; n < b.N; n += len(list) {
			dst, _ = s.SealRuns(dst[:0], list[:min(len(list), b.N-n)], func(int, []byte) {})
		}
	})
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for n := range b.N {
			dst, _ = s.SealRuns(dst[:0], list[n%len(list):][:1], func(int, []byte) {})
		}
	})
	e := envelope(list[0], samplePayload(20).Rules)
	b.Run("alone, parsing the payload", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.Seal(e)
		}
	})
	signed, err := e.SigningBytes()
	require.NoError(b, err)
	b.Run("floor, ed25519 of 55 bytes", func(b *testing.B) {
		for b.Loop() {
			s.Sign(signed[:55])
		}
	})
	b.Run("floor, ed25519 of the envelope", func(b *testing.B) {
		for b.Loop() {
			s.Sign(signed)
		}
	})
	b.Run("floor, sha256 of the envelope", func(b *testing.B) {
		for b.Loop() {
			sha256.Sum256(signed)
		}
	})
}

// BenchmarkOpening compares what a message of 20 rules costs its reader when it
// has seen the run before, when it has not, and when it is signed alone.
func BenchmarkOpening(b *testing.B) {
	s := signer(b)
	list := fanOut(artifact.MaxRun, prepared(b, 20))
	docs := sealed(b, s, list)
	alone := sealed(b, s, list[:1])[0]
	set := trusting(s, artifact.PlanePolicy)
	open := func(b *testing.B, set *artifact.TrustSet, doc []byte) {
		if _, err := set.Open(doc); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("of a run seen before", func(b *testing.B) {
		b.ReportAllocs()
		for n := range b.N {
			open(b, set, docs[n%len(docs)])
		}
	})
	b.Run("of a run not seen", func(b *testing.B) {
		for n := range b.N {
			open(b, trusting(s, artifact.PlanePolicy), docs[n%len(docs)])
		}
	})
	b.Run("signed alone", func(b *testing.B) {
		for b.Loop() {
			open(b, set, alone)
		}
	})
	signed, err := envelope(list[0], samplePayload(20).Rules).SigningBytes()
	require.NoError(b, err)
	b.Run("floor, canonical form of the envelope", func(b *testing.B) {
		for b.Loop() {
			_, _ = artifact.Canonical(signed)
		}
	})
}
