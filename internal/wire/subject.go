package wire

import (
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Beginnings of subjects; the comments name what follows.
const (
	PrefixLog       = "edict.log."                             // project, family, id; or
	PrefixAdmission = PrefixLog + policy.FamilyAdmission + "." // admission policy
	PrefixAccess    = PrefixLog + policy.FamilyAccess + "."    // principal
	PrefixKey       = PrefixLog + policy.FamilyKey + "."       // key
	PrefixProject   = PrefixLog + policy.FamilyProject + "."   // project

	PrefixRejected = "edict.rejected."    // sequence of the event
	PrefixVerdict  = "edict.verdict."     // what follows PrefixLog in the event's subject, up to the next dot: its project; then its sequence
	PrefixDecision = "edict.decision."    // of admission
	PrefixReport   = "edict.report.node." // node
	PrefixNode     = "edict.node."        // node, name
	PrefixReplay   = "edict.replay.node." // node
)

// SubjectChain is where the witness keeps its links.
const SubjectChain = "edict.chain"

// Subject is the log subject of an event: the LogForm of its family.
func Subject(e policy.Event) string {
	const size = len(PrefixLog) + 36 + len(".artifact.") + policy.MaxNodeID
	return string(AppendSubject(make([]byte, 0, size), e))
}

// AppendSubject appends Subject to b.
func AppendSubject(b []byte, e policy.Event) []byte {
	f := policy.KindOf(e).Family
	if f.Plane {
		b = append(append(append(b, PrefixLog...), f.Name...), '.')
	} else {
		b = appendFamily(b, e.Scope(), f.Name)
	}
	return policy.AppendKey(b, e)
}

// LogForm is the form of a family's log subjects, such as
// edict.log.<project>.node.<node> or edict.log.access.<principal>.
func LogForm(f *policy.Family) string {
	form := f.Name + ".<" + f.Key + ">"
	if !f.Plane {
		form = "<project>." + form
	}
	return PrefixLog + form
}

func appendFamily(b []byte, project uuid.UUID, family string) []byte {
	b = append(appendID(append(b, PrefixLog...), project), '.')
	return append(append(b, family...), '.')
}

func appendID(b []byte, id uuid.UUID) []byte {
	text, _ := id.MarshalText() // cannot fail
	return append(b, text...)
}

// Claim is what a log subject claims about its event: the name of its family, the
// project where the family's events are of projects, and the id of what the event is
// about, as written. Any producer chooses its subject, so a claim is held against
// the body before it is believed.
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
	project, rest, ok := strings.Cut(rest, ".")
	if !ok {
		return Claim{}, false
	}
	if f := policy.FamilyNamed(project); f != nil && f.Plane {
		if rest == "" || strings.Contains(rest, ".") {
			return Claim{}, false
		}
		return Claim{Family: f.Name, ID: rest}, true
	}
	family, id, ok := strings.Cut(rest, ".")
	if !ok || id == "" || strings.Contains(id, ".") {
		return Claim{}, false
	}
	if f := policy.FamilyNamed(family); f == nil || f.Plane {
		return Claim{}, false
	}
	u, err := uuid.Parse(project)
	if err != nil || u.String() != project {
		return Claim{}, false
	}
	return Claim{Project: u, Family: family, ID: id}, true
}

// NodeSubject is the subject of a node's messages about name: edict.node.<id>.<name>.
func NodeSubject(id policy.NodeID, name string) string {
	return PrefixNode + string(id) + "." + name
}

// NodeFilter matches all messages for a node: edict.node.<id>.>.
func NodeFilter(id policy.NodeID) string { return PrefixNode + string(id) + ".>" }

// ReplaySubject is where a node asks for what it missed: edict.replay.node.<id>.
func ReplaySubject(id policy.NodeID) string { return PrefixReplay + string(id) }

// VerdictFilter matches the questions what became of a project's events.
func VerdictFilter(project uuid.UUID) string {
	return string(append(appendID([]byte(PrefixVerdict), project), ".*"...))
}

// LogFilter matches events of a project and a family about id, or about
// anything where that is "*".
func LogFilter(project uuid.UUID, family, id string) string {
	return string(append(appendFamily(nil, project, family), id...))
}
