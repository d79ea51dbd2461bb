package projector

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// judgeArtifacts settles the cases that do not depend on what an artifact
// event says.
func (j *judge) judgeArtifacts(id policy.NodeID, project, event uuid.UUID) (n *node, v Verdict, settled bool) {
	if n = j.node(id); n == nil {
		return nil, Verdict{}, false
	}
	switch {
	case n.project.id != project:
		return n, reject(CodeNodeIDTaken, "node id %s belongs to another project: choose another, or give it the artifacts of each of its retes in that project", id), true
	case slices.ContainsFunc(n.sets(), func(s *artifactSet) bool { return s.event == event }):
		return n, duplicate, true
	case slices.ContainsFunc(n.sets(), func(s *artifactSet) bool { return j.appliedToNode(n.ordinal, s.seen, event) }):
		return n, reject(CodeStaleEvent, "event %s about the artifacts of node %s was applied before and a newer one followed: publish a new event", event, id), true
	}
	return n, Verdict{}, false
}

// judgeRelease accepts a newer set whose signatures count. r is what the event's
// documents say, nil when they were not read yet; pinned is the rete, nil when this
// event pins it.
func (j *judge) judgeRelease(ev policy.ArtifactReleased, r *released, fault *policy.DecodeError) (at besideHeld, pinned *rete, v Verdict) {
	n, v, settled := j.judgeArtifacts(ev.Node, ev.Project, ev.ID)
	if settled {
		return at, nil, v
	}
	if r == nil && fault == nil {
		r, fault = readReleased(ev)
	}
	if fault != nil {
		return at, nil, invalid(fault)
	}
	if at = n.place(r.rete, ev.Rete != ""); at.set != nil {
		if v, stays := newerThan(at.set, r, ev.Node); stays {
			return at, nil, v
		}
		if held := at.set.rete; held != nil && held.name != r.rete {
			return at, nil, reject(CodeSignerNotTrusted, "%s", otherRete(ev.Node, held.name, r.rete))
		}
	}
	if v, full := tooManyBeside(at, r); full {
		return at, nil, v
	}
	pinned = j.pinnedRete(ev.Project, r.rete)
	trusted := ev.Trust
	if pinned != nil {
		trusted = pinned.signers
	}
	if v, bad := untrusted(r, trusted); bad {
		return at, nil, v
	}
	return at, pinned, Verdict{}
}

// otherRete says what an event lacks that gives a node artifacts of a second rete.
func otherRete(id policy.NodeID, held, rete string) string {
	return fmt.Sprintf("node %s holds artifacts of rete %s, for which a signer of rete %s does not speak: say rete %s in the event to give it those beside them, or withdraw them first",
		id, held, rete, rete)
}

// tooManyBeside bounds what a node holds of all its retes, since each artifact has a
// number among them.
func tooManyBeside(at besideHeld, r *released) (v Verdict, full bool) {
	if at.node == nil {
		return v, false
	}
	beside := at.node.partsBeside(at.set)
	if beside == 0 || beside+len(r.parts) <= policy.MaxArtifacts {
		return v, false
	}
	return invalid(&policy.DecodeError{Code: policy.Invalid, Violations: policy.Violations{{
		Pointer: "/artifacts", Code: policy.CodeArtifactsOutOfRange,
		Detail: fmt.Sprintf("%d artifacts beside %d of the node's other retes; a node holds at most %d", len(r.parts), beside, policy.MaxArtifacts),
	}}}), true
}

// newerThan refuses a version that is not newer. The very set that the node has
// is a duplicate.
func newerThan(s *artifactSet, r *released, id policy.NodeID) (v Verdict, stays bool) {
	switch {
	case r.version > s.version:
		return Verdict{}, false
	case r.version == s.version && slices.EqualFunc(s.parts, r.parts, func(a heldPart, b releasedPart) bool { return a.artifactPart == b.artifactPart }):
		return duplicate, true
	case s.rete != nil && s.rete.name != r.rete:
		return reject(CodeVersionNotNewer, "%s", otherRete(id, s.rete.name, r.rete)), true
	}
	of := ""
	if s.reteName() == r.rete {
		of = " of rete " + r.rete
	}
	return reject(CodeVersionNotNewer, "version %d is not above %d, which node %s was given%s: compile again with a higher --version", r.version, s.version, id, of), true
}

// untrusted applies reference 5A: the agent's artifact is signed by a signer
// that was trusted before, all others by one that it authorizes.
func untrusted(r *released, trusted []policy.TrustedSigner) (Verdict, bool) {
	if len(trusted) == 0 {
		return reject(CodeSignerNotTrusted, "no signer is pinned for rete %s: pin the first with edict release --trust", r.rete), true
	}
	for i := range r.parts {
		p := &r.parts[i]
		signers, who := trusted, "pinned for rete "+r.rete
		if p.kind != kindAgent {
			signers, who = r.signers, "authorized by the agent artifact"
		}
		switch err := r.signedBy(p, signers); {
		case errors.Is(err, artifact.ErrUnknownKey):
			return reject(CodeSignerNotTrusted, "%s %s is signed by %.200s, which is not %s: %s", p.kind, p.name, p.keyID, who, joinSigners(signers)), true
		case err != nil:
			return reject(CodeBadSignature, "%s %s: %v", p.kind, p.name, err), true
		}
	}
	return Verdict{}, false
}

// joinSigners lists signers for a message.
func joinSigners(signers []policy.TrustedSigner) string {
	text := ""
	for i, s := range signers {
		if i > 0 {
			text += ", "
		}
		if len(text) > 200 {
			return text + "…"
		}
		text += s.SPIFFE
	}
	return text
}

// Where the artifact that is withdrawn is not among those of its node.
const (
	nothingHeld = -1 // the event is remembered: met again after a release, it must be known as an old one
	notAsked    = -2 // the event was decided without asking, and changes nothing
)

// judgeWithdrawal accepts the withdrawal of an artifact that its node holds, at
// that place of its set.
func (j *judge) judgeWithdrawal(ev policy.ArtifactWithdrawn, fault *policy.DecodeError) (where besideHeld, at int, v Verdict) {
	n, v, settled := j.judgeArtifacts(ev.Node, ev.Project, ev.ID)
	switch where.node = n; {
	case v.Rejection != nil && v.Rejection.Code == CodeStaleEvent && ev.Rete != "" && n.setOf(ev.Rete) == nil:
		return where, notAsked, duplicate // there was nothing, and is nothing now
	case settled:
		return where, notAsked, v
	case fault != nil:
		return where, notAsked, invalid(fault)
	case n == nil || n.artifacts == nil:
		return where, nothingHeld, duplicate
	}
	s := n.artifacts
	if ev.Rete != "" {
		if s = n.setOf(ev.Rete); s == nil {
			return where, nothingHeld, duplicate
		}
	}
	where.set, where.beside = s, s.beside
	at = slices.IndexFunc(s.parts, func(p heldPart) bool { return p.kind == ev.Kind && p.name == ev.Name })
	if at < 0 {
		return where, nothingHeld, duplicate
	}
	return where, at, Verdict{}
}
