package streams

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

func TestTheSubjectOfAnEventClaimsWhatTheEventSays(t *testing.T) {
	p := uuid.New()
	cases := []struct {
		event policy.Event
		want  wire.Claim
	}{
		{policy.RevisionCreated{Project: project, Policy: p}, wire.Claim{Project: project, Family: policy.FamilyPolicy, ID: p.String()}},
		{policy.PolicyDeleted{Project: project, Policy: p}, wire.Claim{Project: project, Family: policy.FamilyPolicy, ID: p.String()}},
		{policy.NodeUpdated{Project: project, Node: "web-1"}, wire.Claim{Project: project, Family: policy.FamilyNode, ID: "web-1"}},
		{policy.NodeRemoved{Project: project, Node: "web-1"}, wire.Claim{Project: project, Family: policy.FamilyNode, ID: "web-1"}},
		{policy.ArtifactReleased{Project: project, Node: "web-1"}, wire.Claim{Project: project, Family: policy.FamilyArtifact, ID: "web-1"}},
		{policy.ArtifactWithdrawn{Project: project, Node: "web-1"}, wire.Claim{Project: project, Family: policy.FamilyArtifact, ID: "web-1"}},
	}
	for _, c := range cases {
		s := wire.Subject(c.event)
		got, ok := wire.ParseSubject(s)
		assert.True(t, ok, s)
		assert.Equal(t, c.want, got)
		matched := false
		for _, f := range slices.Concat(logSubjects, laterSubjects) {
			matched = matched || covers(f, s)
		}
		assert.True(t, matched, s)
	}
}

func TestSubjectsThatNoEventHasClaimNothing(t *testing.T) {
	id := project.String()
	for _, s := range []string{
		"", "edict.log", "edict.log.", "edict.log." + id, "edict.log." + id + ".node", "edict.log." + id + ".node.",
		"edict.log." + id + ".node.a.b", "edict.log." + id + ".artifact.a.b", "edict.log.x.node.a", "edict.log..node.a",
		"edict.log.{" + id + "}.node.a", "edict.log.urn:uuid:" + id + ".node.a", "edict.node." + id + ".node.a",
		"edict.log." + strings.ReplaceAll(id, "-", "") + ".node.a", "edict.log.ABCDEF00-0000-4000-8000-000000000000.node.a",
	} {
		_, ok := wire.ParseSubject(s)
		assert.False(t, ok, s)
	}
}

func TestSubjectsOfANode(t *testing.T) {
	assert.Equal(t, "edict.node.web-1.p", wire.NodeSubject("web-1", "p"))
	assert.Equal(t, "edict.node.web-1.>", wire.NodeFilter("web-1"))
	assert.Equal(t, "edict.replay.node.web-1", wire.ReplaySubject("web-1"))
}

func FuzzParseSubject(f *testing.F) {
	f.Add("edict.log." + project.String() + ".node.a")
	f.Add("edict.log." + project.String() + ".policy." + project.String())
	f.Add("edict.log...")
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := wire.ParseSubject(s)
		if !ok {
			return
		}
		if back := wire.PrefixLog + c.Project.String() + "." + c.Family + "." + c.ID; back != s {
			t.Fatalf("%q reads as %q", s, back)
		}
	})
}

func FuzzParseDelivery(f *testing.F) {
	f.Add("$JS.ACK.STREAM.consumer.1.1795253569000000.12.1700000000000000001.7")
	f.Add("$JS.ACK._.acchash.STREAM.consumer.1.1.12.1700000000000000001.7.token")
	f.Fuzz(func(t *testing.T, s string) {
		parseDelivery(s) // must not panic, whatever a client hands over
	})
}
