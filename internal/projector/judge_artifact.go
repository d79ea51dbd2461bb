package projector

import (
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// judgeArtifacts settles the cases that do not depend on what an artifact
// event says.
func (j *judge) judgeArtifacts(id policy.NodeID, project, event uuid.UUID) (n *node, v Verdict, settled bool) {
	if n = j.nodes[id]; n == nil {
		return nil, Verdict{}, false
	}
	switch {
	case n.project.id != project:
		return n, reject(CodeNodeIDTaken, "node id %s belongs to another project: choose another", id), true
	case n.artifacts == nil:
		return n, Verdict{}, false
	case n.artifacts.event == event:
		return n, duplicate, true
	case j.appliedToNode(n.ordinal, n.artifacts.seen, event):
		return n, reject(CodeStaleEvent, "event %s about the artifacts of node %s was applied before and a newer one followed: publish a new event", event, id), true
	}
	return n, Verdict{}, false
}

// judgeRelease accepts a newer set whose signatures count. r is what the event's
// documents say, nil when they were not read yet; pinned is the rete, nil when this
// event pins it.
func (j *judge) judgeRelease(ev policy.ArtifactReleased, r *released, fault *policy.DecodeError) (n *node, pinned *rete, v Verdict) {
	n, v, settled := j.judgeArtifacts(ev.Node, ev.Project, ev.ID)
	if settled {
		return n, nil, v
	}
	if r == nil && fault == nil {
		r, fault = readReleased(ev)
	}
	if fault != nil {
		return n, nil, invalid(fault)
	}
	if n != nil && n.artifacts != nil {
		if v, stays := newerThan(n.artifacts, r, ev.Node); stays {
			return n, nil, v
		}
		if held := n.artifacts.rete; held != nil && held.name != r.rete {
			return n, nil, reject(CodeSignerNotTrusted, "node %s holds artifacts of rete %s, for which a signer of rete %s does not speak: withdraw them first", ev.Node, held.name, r.rete)
		}
	}
	pinned = j.reteOf(ev.Project, r.rete)
	trusted := ev.Trust
	if pinned != nil {
		trusted = pinned.signers
	}
	if v, bad := untrusted(r, trusted); bad {
		return n, nil, v
	}
	return n, pinned, Verdict{}
}

// newerThan refuses a version that is not newer. The very set that the node has
// is a duplicate.
func newerThan(s *artifactSet, r *released, id policy.NodeID) (v Verdict, stays bool) {
	switch {
	case r.version > s.version:
		return Verdict{}, false
	case r.version == s.version && slices.EqualFunc(s.parts, r.parts, func(a heldPart, b releasedPart) bool { return a.artifactPart == b.artifactPart }):
		return duplicate, true
	}
	return reject(CodeVersionNotNewer, "version %d is not above %d, which node %s was given: compile again with a higher --version", r.version, s.version, id), true
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
func (j *judge) judgeWithdrawal(ev policy.ArtifactWithdrawn, fault *policy.DecodeError) (n *node, at int, v Verdict) {
	n, v, settled := j.judgeArtifacts(ev.Node, ev.Project, ev.ID)
	switch {
	case settled:
		return n, notAsked, v
	case fault != nil:
		return n, notAsked, invalid(fault)
	case n == nil || n.artifacts == nil:
		return n, nothingHeld, duplicate
	}
	at = slices.IndexFunc(n.artifacts.parts, func(p heldPart) bool { return p.kind == ev.Kind && p.name == ev.Name })
	if at < 0 {
		return n, nothingHeld, duplicate
	}
	return n, at, Verdict{}
}
