package projector

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

func archive(event, proj int) policy.ProjectArchived {
	return policy.ProjectArchived{ID: evt(event), Project: tenant(proj), CreatedBy: "root"}
}

func restore(event, proj int) policy.ProjectRestored {
	return policy.ProjectRestored(archive(event, proj))
}

func TestAnArchivedProjectTakesNoEvent(t *testing.T) {
	p, j := openFresh(t), &journal{}
	first := revise(t, 2, 1, 1, 1, 0, "a", "role=web", 1)
	for _, s := range []struct {
		what string
		e    policy.Event
		want string
	}{
		{"a node", update(t, 1, 1, "a", "role", "web"), "applied"},
		{"a policy", first, "applied"},
		{"a project that has a node", archive(3, 1), CodeProjectInUse},
		{"the node goes", leave(4, 1, "a"), "applied"},
		{"the event that was rejected, now that it may be", archive(3, 1), "applied"},
		{"it again", archive(3, 1), "duplicate"},
		{"what is so already", archive(5, 1), "duplicate"},
		{"a node", update(t, 6, 1, "a", "role", "web"), CodeProjectArchived},
		{"a policy", revise(t, 7, 1, 2, 2, 0, "b", "role=web", 1), CodeProjectArchived},
		{"a deletion", remove(8, 1, 1), CodeProjectArchived},
		{"a release", pinning(release(20, 1, "r", 1, one("k1"), []string{one("k1")}, "flor"), one("k1")), CodeProjectArchived},
		{"an event seen before", first, "duplicate"},
		{"the node in another project", update(t, 9, 2, "a", "role", "web"), CodeNodeIDTaken},
		{"the policy in another project", revise(t, 10, 2, 1, 3, 0, "c", "role=web", 1), CodePolicyNotOwned},
		{"another project", update(t, 11, 2, "b", "role", "web"), "applied"},
		{"a quota, which is the plane's", limit(12, 1, policy.Quota{Nodes: 5}), "applied"},
		{"a restoration", restore(13, 1), "applied"},
		{"it again", restore(13, 1), "duplicate"},
		{"the archiving that was undone", archive(3, 1), "duplicate"},
		{"what was the case when it was said", archive(5, 1), "duplicate"},
		{"the node is back", update(t, 14, 1, "a", "role", "web"), "applied"},
		{"the policy as it was", revise(t, 15, 1, 1, 4, 1, "a", "role=web", 2), "applied"},
		{"a project that nobody knows", archive(16, 7), "applied"},
		{"another", archive(18, 8), "applied"},
		{"it is restored", restore(19, 8), "applied"},
		{"the archiving that was undone, the first time again", archive(18, 8), "duplicate"},
		{"its first node", update(t, 17, 7, "z", "role", "web"), CodeProjectArchived},
	} {
		require.Equal(t, s.want, verdict(t, p, j.add(s.e)), s.what)
	}
	p.Read(func(v *View) {
		require.Zero(t, QuotasOf(v).Of(tenant(1), born).Since)
		require.NotZero(t, QuotasOf(v).Of(tenant(7), born).Since)
		require.Contains(t, QuotasOf(v).Projects(), tenant(7))
	})
}

// However the log is cut up, and wherever a start comes between, the same events are refused.
func TestArchivesJudgeAlikeHoweverTheLogIsRead(t *testing.T) {
	gen.Unraced()
	r, j := rand.New(rand.NewPCG(9, 9)), &journal{}
	for n := 1; n <= 400; n++ {
		proj, node := 1+r.IntN(2), string(rune('a'+r.IntN(3)))
		at := r.IntN(n) + 1 // sometimes an event comes again
		switch r.IntN(5) {
		case 0:
			j.add(archive(at, proj))
		case 1:
			j.add(restore(at, proj))
		case 2:
			j.add(update(t, n, proj, node+string(rune('0'+proj)), "role", node))
		default:
			j.add(leave(n, proj, node+string(rune('0'+proj))))
		}
	}
	one, met := openFresh(t), map[string]int{}
	for _, m := range j.msgs {
		met[verdict(t, one, m)]++
	}
	for _, word := range []string{"applied", "duplicate", CodeProjectArchived, CodeProjectInUse} {
		require.Greater(t, met[word], 10, word)
	}
	want, err := one.Digest(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.Equal(t, want, foldedInPieces(t, j.msgs, func(left int) int { return 1 + r.IntN(min(left, 100)) }))
	}
}
