package wire

import (
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Families of log subjects (docs/design.md#the-fold-is-the-judge).
const (
	FamilyPolicy    = "policy"
	FamilyNode      = "node"
	FamilyArtifact  = "artifact"
	FamilyAdmission = "admission"
	FamilyAccess    = "access"
	FamilyKey       = "key"
)

// Beginnings of subjects; what follows is said beside each.
const (
	PrefixLog       = "edict.log."                      // project, family, id; or
	PrefixAdmission = PrefixLog + FamilyAdmission + "." // admission policy
	PrefixAccess    = PrefixLog + FamilyAccess + "."    // principal
	PrefixKey       = PrefixLog + FamilyKey + "."       // key

	PrefixRejected = "edict.rejected."    // sequence of the event
	PrefixDecision = "edict.decision."    // of admission
	PrefixReport   = "edict.report.node." // node
	PrefixNode     = "edict.node."        // node, name
	PrefixReplay   = "edict.replay.node." // node
)

// SubjectChain is where the witness keeps its links.
const SubjectChain = "edict.chain"

// Subject is the log subject of an event: edict.log.<project>.policy.<policy>,
// edict.log.<project>.node.<node>, edict.log.<project>.artifact.<node>,
// edict.log.admission.<policy>, edict.log.access.<principal> or
// edict.log.key.<key id>. It is "" for an event of no family, which no event of
// the closed set is.
func Subject(e policy.Event) string {
	const most = len(PrefixLog) + 36 + len(".artifact.") + policy.MaxNodeID
	return string(AppendSubject(make([]byte, 0, most), e))
}

// AppendSubject appends Subject to b.
func AppendSubject(b []byte, e policy.Event) []byte {
	switch e := e.(type) {
	case policy.RevisionCreated:
		return appendID(appendFamily(b, e.Project, FamilyPolicy), e.Policy)
	case policy.PolicyDeleted:
		return appendID(appendFamily(b, e.Project, FamilyPolicy), e.Policy)
	case policy.NodeUpdated:
		return append(appendFamily(b, e.Project, FamilyNode), e.Node...)
	case policy.NodeRemoved:
		return append(appendFamily(b, e.Project, FamilyNode), e.Node...)
	case policy.ArtifactReleased:
		return append(appendFamily(b, e.Project, FamilyArtifact), e.Node...)
	case policy.ArtifactWithdrawn:
		return append(appendFamily(b, e.Project, FamilyArtifact), e.Node...)
	case policy.AdmissionPolicyUpdated:
		return append(append(b, PrefixAdmission...), e.Policy...)
	case policy.AdmissionPolicyDeleted:
		return append(append(b, PrefixAdmission...), e.Policy...)
	case policy.PrincipalUpdated:
		return append(append(b, PrefixAccess...), e.Principal...)
	case policy.PrincipalRemoved:
		return append(append(b, PrefixAccess...), e.Principal...)
	case policy.RelationWritten:
		return append(append(b, PrefixAccess...), e.Principal...)
	case policy.RelationRemoved:
		return append(append(b, PrefixAccess...), e.Principal...)
	case policy.NodeRegistered:
		return append(append(b, PrefixAccess...), e.Principal...)
	case policy.KeyRotated:
		return append(append(b, PrefixKey...), e.Key...)
	}
	return b
}

func appendFamily(b []byte, project uuid.UUID, family string) []byte {
	b = append(appendID(append(b, PrefixLog...), project), '.')
	return append(append(b, family...), '.')
}

func appendID(b []byte, id uuid.UUID) []byte {
	text, _ := id.MarshalText() // cannot fail
	return append(b, text...)
}

// Claim is what a log subject says of its event: Family is FamilyPolicy,
// FamilyNode, FamilyArtifact, or FamilyAdmission, FamilyAccess or FamilyKey,
// which have no project; ID the policy's, node's or key's id as written. Any producer chooses its
// subject, so a claim is held against the body before it is believed.
type Claim struct {
	Project uuid.UUID
	Family  string
	ID      string
}

// ParseSubject reads a log subject. It is false for one that no event of this
// binary can have: another shape or family, or a project that is not a
// canonical UUID.
func ParseSubject(s string) (Claim, bool) {
	rest, ok := strings.CutPrefix(s, PrefixLog)
	if !ok {
		return Claim{}, false
	}
	for _, family := range [...]string{FamilyAdmission, FamilyAccess, FamilyKey} {
		if id, ok := strings.CutPrefix(rest, family+"."); ok && id != "" && !strings.Contains(id, ".") {
			return Claim{Family: family, ID: id}, true
		}
	}
	project, rest, ok := strings.Cut(rest, ".")
	if !ok {
		return Claim{}, false
	}
	family, id, ok := strings.Cut(rest, ".")
	if !ok || id == "" || strings.Contains(id, ".") {
		return Claim{}, false
	}
	if family != FamilyPolicy && family != FamilyNode && family != FamilyArtifact {
		return Claim{}, false
	}
	u, err := uuid.Parse(project)
	if err != nil || u.String() != project {
		return Claim{}, false
	}
	return Claim{Project: u, Family: family, ID: id}, true
}

// NodeSubject is where a node hears of name: edict.node.<id>.<name>.
func NodeSubject(id policy.NodeID, name string) string {
	return PrefixNode + string(id) + "." + name
}

// NodeFilter matches everything a node hears: edict.node.<id>.>.
func NodeFilter(id policy.NodeID) string { return PrefixNode + string(id) + ".>" }

// ReplaySubject is where a node asks for what it missed: edict.replay.node.<id>.
func ReplaySubject(id policy.NodeID) string { return PrefixReplay + string(id) }

// LogFilter matches events of a project and a family about id, or about
// anything where that is "*".
func LogFilter(project uuid.UUID, family, id string) string {
	return string(append(appendFamily(nil, project, family), id...))
}
