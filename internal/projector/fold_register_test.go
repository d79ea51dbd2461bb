package projector

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// bootstrapped is a node's principal with bootstrap tokens, which end seconds
// after the log's beginning.
func bootstrapped(event int, id string, seconds int, tokens ...byte) policy.PrincipalUpdated {
	d := policy.Principal{Kind: policy.Agent}
	for _, n := range tokens {
		d.Bootstrap = append(d.Bootstrap, policy.Bootstrap{
			ID: uuid.UUID{15: n}, Hash: [32]byte{n}, Project: tenant(1), Expires: born.Add(time.Duration(seconds) * time.Second),
		})
	}
	return policy.PrincipalUpdated{ID: evt(event), Principal: policy.PrincipalID(id), Document: d}
}

func registers(event int, id string, token, nonce byte) policy.NodeRegistered {
	e := policy.NodeRegistered{
		ID: evt(event), Principal: policy.PrincipalID(id), Bootstrap: uuid.UUID{15: token}, Dialect: policy.DialectCurrent,
		PublicKey: [32]byte{9}, Hash: [32]byte{100, byte(event)},
	}
	if nonce == 0 {
		e.Dialect = policy.DialectLegacy
	} else {
		e.Nonce = &[32]byte{nonce}
	}
	return e
}

func ending(e policy.PrincipalUpdated, state policy.BootstrapState) policy.PrincipalUpdated {
	e.Document.Bootstrap[0].State = state
	return e
}

func TestTheFoldJudgesRegistrations(t *testing.T) {
	gen.Unraced()
	type step struct {
		event policy.Event
		want  string
	}
	for name, steps := range map[string][]step{
		"a token is used once": {
			{bootstrapped(1, "a", 99, 1), "applied"},
			{registers(2, "a", 1, 1), "applied"},
			{registers(3, "a", 1, 2), CodeTokenConsumed},
			{registers(2, "a", 1, 1), "duplicate"},
		},
		"a writer who has not seen that it was used does not undo it": {
			{bootstrapped(1, "a", 99, 1), "applied"},
			{registers(2, "a", 1, 1), "applied"},
			{bootstrapped(3, "a", 99, 1), "applied"},
			{registers(4, "a", 1, 2), CodeTokenConsumed},
		},
		"it ends by the log's clock": {
			{bootstrapped(1, "a", 3, 1, 2), "applied"},
			{registers(2, "a", 1, 1), "applied"},
			{registers(3, "a", 2, 2), CodeTokenExpired},
		},
		"a revoked one is worth nothing": {
			{ending(bootstrapped(1, "a", 99, 1), policy.BootstrapRevoked), "applied"},
			{registers(2, "a", 1, 1), CodeTokenRevoked},
		},
		"nor is one that is gone, or another node's": {
			{registers(1, "a", 1, 1), CodeTokenRevoked},
			{bootstrapped(2, "a", 99, 1), "applied"},
			{registers(3, "b", 1, 1), CodeTokenRevoked},
			{removed(4, "a"), "applied"},
			{registers(5, "a", 1, 1), CodeTokenRevoked},
		},
		"a nonce is used once in the plane": {
			{bootstrapped(1, "a", 99, 1), "applied"},
			{bootstrapped(2, "b", 99, 2), "applied"},
			{registers(3, "a", 1, 7), "applied"},
			{registers(4, "b", 2, 7), CodeNonceCollision},
			{registers(5, "b", 2, 8), "applied"},
		},
		"older agents have no nonce": {
			{bootstrapped(1, "a", 99, 1, 2), "applied"},
			{registers(2, "a", 1, 0), "applied"},
			{registers(3, "a", 2, 0), "applied"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, j := openFresh(t), &journal{}
			for i, s := range steps {
				require.Equal(t, s.want, verdict(t, p, j.add(s.event)), "step %d", i)
			}
		})
	}
}

func TestARegistrationReplacesTheOneBefore(t *testing.T) {
	p, j := openFresh(t), &journal{}
	made := bootstrapped(1, "a", 99, 1, 2)
	made.Document.Tokens = []policy.Token{{ID: uuid.UUID{1}, Hash: [32]byte{1}}}
	for _, e := range []policy.Event{made, registers(2, "a", 1, 1), registers(3, "a", 2, 0)} {
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
	}
	p.Read(func(v *View) {
		a, _ := v.Principal("a")
		require.Equal(t, []policy.Token{{ID: uuid.UUID{1}, Hash: [32]byte{1}}, {ID: evt(3), Hash: [32]byte{100, 3}}}, a.Document.Tokens)
		require.Equal(t, &policy.Registration{Token: evt(3), Bootstrap: uuid.UUID{15: 2}, Dialect: policy.DialectLegacy, PublicKey: [32]byte{9}}, a.Document.Registration)
		require.Len(t, a.Relations, 1)
		require.Equal(t, "node:"+tenant(1).String()+"/a#agent", a.Relations[0].Relation.String())
		require.Equal(t, uint64(3), a.Version, "a writer who saw it before must look again")
		require.Equal(t, policy.DialectLegacy, v.Dialect("a"))
		require.Equal(t, policy.DialectCurrent, v.Dialect("b"))
	})
}

func TestAPrincipalFullOfTokensIsNotRegistered(t *testing.T) {
	p, j := openFresh(t), &journal{}
	made := bootstrapped(1, "a", 99, 1)
	for n := range byte(policy.MaxTokens) {
		made.Document.Tokens = append(made.Document.Tokens, policy.Token{ID: uuid.UUID{n + 1}, Hash: [32]byte{n}})
	}
	verdict(t, p, j.add(made))
	require.Equal(t, policy.Invalid, verdict(t, p, j.add(registers(2, "a", 1, 1))))
}

// However the log is cut into batches, and wherever a fold starts again, each
// token is consumed by the first registration that could have it.
func TestTheFirstInTheLogHasTheToken(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(rt *rapid.T) {
		j, consumed, nonces, owner := &journal{}, map[byte]bool{}, map[byte]bool{}, map[byte]string{1: "a", 2: "a", 3: "b"}
		j.add(bootstrapped(1, "a", 20, 1, 2))
		j.add(bootstrapped(2, "b", 20, 3))
		want := []string{"applied", "applied"}
		for n := range rapid.IntRange(1, 30).Draw(rt, "events") {
			token, nonce := byte(rapid.IntRange(1, 3).Draw(rt, "token")), byte(rapid.IntRange(0, 4).Draw(rt, "nonce"))
			e := registers(n+3, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "id"), token, nonce)
			j.add(e)
			switch {
			case owner[token] != string(e.Principal):
				want = append(want, CodeTokenRevoked)
			case consumed[token]:
				want = append(want, CodeTokenConsumed)
			case n+3 >= 20:
				want = append(want, CodeTokenExpired)
			case nonce != 0 && nonces[nonce]:
				want = append(want, CodeNonceCollision)
			default:
				consumed[token], nonces[nonce] = true, true
				want = append(want, "applied")
			}
		}
		d := newDisk()
		p := d.open(rt)
		defer func() { require.NoError(rt, p.Close()) }()
		var got []string
		for at := 0; at < len(j.msgs); {
			to := rapid.IntRange(at+1, len(j.msgs)).Draw(rt, "to")
			require.NoError(rt, p.Apply(j.msgs[at:to]))
			for _, m := range j.msgs[at:to] {
				v, err := p.Verdict(t.Context(), m.Seq)
				require.NoError(rt, err)
				got = append(got, word(v))
			}
			at = to
			if rapid.Bool().Draw(rt, "restart") {
				require.NoError(rt, p.Close())
				p = d.open(rt)
			}
		}
		require.Equal(rt, want, got)
		p.Read(func(v *View) {
			for token, id := range owner {
				who, kept, ok := v.Bootstrap([32]byte{token})
				require.True(rt, ok)
				require.Equal(rt, policy.PrincipalID(id), who.ID)
				require.Equal(rt, consumed[token], kept.State == policy.BootstrapConsumed)
			}
			_, _, ok := v.Bootstrap([32]byte{9})
			require.False(rt, ok)
		})
	})
}

// TestATokenThatWasUsedStaysUsed: whoever removes the principal and writes it again does not
// make it good once more, nor whoever writes the same token for another.
func TestATokenThatWasUsedStaysUsed(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	for i, s := range []struct {
		e    policy.Event
		want string
	}{
		{bootstrapped(1, "a", 9999, 1), "applied"},
		{bootstrapped(2, "b", 9999, 1), "applied"},
		{registers(3, "a", 1, 1), "applied"},
		{removed(4, "a"), "applied"},
		{bootstrapped(5, "a", 9999, 1), "applied"},
		{registers(6, "a", 1, 2), CodeTokenConsumed},
		{registers(7, "b", 1, 3), CodeTokenConsumed},
	} {
		require.Equal(t, s.want, verdict(t, p, j.add(s.e)), i)
		require.NoError(t, p.Close())
		p = d.open(t)
	}
	require.NoError(t, p.Close())
}

// TestATokenOfTwoIsTheFirstsByID, whichever was written first, before and after a restart,
// and the other's once the first is gone.
func TestATokenOfTwoIsTheFirstsByID(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	has := func(want policy.PrincipalID) {
		t.Helper()
		p.Read(func(v *View) {
			who, _, ok := v.Bootstrap([32]byte{7})
			require.True(t, ok)
			require.Equal(t, want, who.ID)
		})
	}
	for _, e := range []policy.Event{bootstrapped(1, "b", 9999, 7), bootstrapped(2, "a", 9999, 7), bootstrapped(3, "c", 9999, 7)} {
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
	}
	has("a")
	require.NoError(t, p.Close())
	p = d.open(t)
	has("a")
	require.Equal(t, "applied", verdict(t, p, j.add(removed(4, "a"))))
	has("b")
	require.NoError(t, p.Close())
	p = d.open(t)
	defer func() { require.NoError(t, p.Close()) }()
	has("b")
}
