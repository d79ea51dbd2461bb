package snapshot

import (
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

func factsOf(t *testing.T, msgs []streams.Message, only policy.NodeID) iter.Seq2[projector.Fact, error] {
	t.Helper()
	p, err := projector.Open("store", options.On(vfs.NewMem()))
	require.NoError(t, err)
	require.NoError(t, p.Apply(msgs))
	_, facts := p.Facts(only)
	var all []projector.Fact
	for f, err := range facts {
		require.NoError(t, err)
		all = append(all, f)
	}
	require.NoError(t, p.Close())
	return yielding(all)
}

func yielding(all []projector.Fact) iter.Seq2[projector.Fact, error] {
	return func(yield func(projector.Fact, error) bool) {
		for _, f := range all {
			if !yield(f, nil) {
				return
			}
		}
	}
}

func TestOfEqualReadModelsNoFactDiffers(t *testing.T) {
	msgs := drawnHistory(t, rand.New(rand.NewPCG(8, 8)), 120)
	d, err := Compare(factsOf(t, msgs, ""), factsOf(t, msgs, ""))
	require.NoError(t, err)
	require.Nil(t, d)
}

// The facts of one sequence, each in turn left out, added or changed on the
// live side: the difference names it, whatever stands around it.
func TestTheFirstFactThatDiffersIsNamed(t *testing.T) {
	var all []projector.Fact
	for f := range factsOf(t, drawnHistory(t, rand.New(rand.NewPCG(5, 5)), 40), "") {
		all = append(all, f)
	}
	require.Greater(t, len(all), 10)
	for i, f := range all {
		d, err := Compare(yielding(slices.Delete(slices.Clone(all), i, i+1)), yielding(all))
		require.NoError(t, err)
		require.Nil(t, d.Live)
		require.Equal(t, f, *d.Log)
		require.Contains(t, d.String(), ": the log has it, the live read model does not: ")
		d, err = Compare(yielding(all), yielding(slices.Delete(slices.Clone(all), i, i+1)))
		require.NoError(t, err)
		require.Equal(t, f, *d.Live)
		require.Contains(t, d.String(), ": the live read model has it, the log does not: ")

		changed := f
		changed.Values = map[string]string{}
		for name, v := range f.Values {
			changed.Values[name] = v
		}
		for name, v := range f.Values {
			changed.Values[name] = v + "?"
			d, err = Compare(yielding(append(append(slices.Clone(all[:i]), changed), all[i+1:]...)), yielding(all))
			require.NoError(t, err)
			require.Contains(t, d.String(), ": live has "+name+" ")
			_, id, _ := strings.Cut(f.Key, "/")
			if f.Kind == projector.FactRevision {
				id = strings.TrimLeft(id, "0")
			}
			require.Contains(t, d.String(), id)
			require.Equal(t, name == "rows", d.Node() != "")
			changed.Values[name] = v
		}
	}
}

// A live read model that missed a revision differs in its rows, and of them the
// first is named with both revisions.
func TestARowThatDiffersIsNamedWithBothRevisions(t *testing.T) {
	rows := []projector.Fact{
		{Kind: projector.FactRow, Key: "web-1/P", Values: map[string]string{"revision": "A", "fingerprint": "F"}},
		{Kind: projector.FactRow, Key: "web-1/Q", Values: map[string]string{"revision": "A", "fingerprint": "F"}},
	}
	other := slices.Clone(rows)
	other[1].Values = map[string]string{"revision": "B", "fingerprint": "F"}
	d, err := Compare(yielding(rows), yielding(other))
	require.NoError(t, err)
	require.Equal(t, "node web-1, policy Q: live has revision A, the log says B", d.String())
}

// told is a log of these events; a nil one is a message that nobody can read.
func told(events ...policy.Event) []streams.Message {
	msgs := make([]streams.Message, len(events))
	for i, e := range events {
		msgs[i] = streams.Message{Seq: uint64(i + 1), Subject: wire.PrefixLog + "x", Time: time.Unix(1_700_000_000, 0).UTC()}
		if e != nil {
			msgs[i].Subject, msgs[i].Body = wire.Subject(e), policy.Append(nil, e)
		}
	}
	return msgs
}

// Read models that hold everything else in common differ in a principal, in one
// of its relations, or in what comes before principals: that fact is named, and
// which side has it.
func TestAFactBesidePrincipalsIsNotBlamedOnThem(t *testing.T) {
	ann := policy.PrincipalUpdated{ID: uuid.UUID{1}, Principal: "ann", Document: policy.Principal{Kind: policy.Person}}
	bob := policy.PrincipalUpdated{ID: uuid.UUID{2}, Principal: "bob", Document: policy.Principal{Kind: policy.Person}}
	rel, err := policy.ParseRelation("plane#admin")
	require.NoError(t, err)
	admin := policy.RelationWritten{ID: uuid.UUID{3}, Principal: "ann", Relation: rel}
	guard := policy.AdmissionPolicyUpdated{ID: uuid.UUID{4}, Policy: "guard", Document: policy.AdmissionPolicy{
		Name: "guard", Level: policy.Global, Priority: 500, Mode: policy.Enforce, Rego: "package edict\nresult := {}",
	}}
	log := []policy.Event{ann, admin, guard, bob}
	for _, c := range []struct {
		name string
		lost int
		want string
	}{
		{"a principal", 3, "principal bob: the log has it, the live read model does not: "},
		{"a relation", 1, `principal ann: live has given "", the log says "plane#admin at 2 by`},
		{"an admission policy", 2, "admission policy guard: the log has it, the live read model does not: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			live := slices.Clone(log)
			live[c.lost] = nil
			d, err := Compare(factsOf(t, told(live...), ""), factsOf(t, told(log...), ""))
			require.NoError(t, err)
			require.NotNil(t, d)
			require.True(t, strings.HasPrefix(d.String(), c.want), "%s", d)
			d, err = Compare(factsOf(t, told(log...), ""), factsOf(t, told(live...), ""))
			require.NoError(t, err)
			require.Equal(t, strings.Contains(c.want, "the log has it"), d.Log == nil, "%s", d)
		})
	}
}

// Two read models differ in nothing but who gave a relation, which their digests
// cover, too.
func TestWhoGaveARelationIsAFact(t *testing.T) {
	rel, err := policy.ParseRelation("plane#admin")
	require.NoError(t, err)
	e := policy.RelationWritten{ID: uuid.UUID{3}, Principal: "ann", CreatedBy: "bob", Relation: rel}
	other := e
	other.CreatedBy = "eve"
	d, err := Compare(factsOf(t, told(e), ""), factsOf(t, told(other), ""))
	require.NoError(t, err)
	require.NotNil(t, d)
	require.Contains(t, d.String(), "principal ann: live has given ")
}

func TestFactsOfANewerKindAreNotCompared(t *testing.T) {
	rows := []projector.Fact{{Kind: "tomorrow", Key: "x"}}
	_, err := Compare(yielding(rows), yielding(nil))
	require.ErrorContains(t, err, "newer than this binary")
}
