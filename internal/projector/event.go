package projector

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Codes the fold gives, beside those of [policy.DecodeError]. The list is
// closed (contracts, fold codes).
const (
	CodeSubjectMismatch  = "subject_mismatch"
	CodeRevisionConflict = "revision_conflict"
	CodePolicyIDUsed     = "policy_id_used"
	CodePolicySlugTaken  = "policy_slug_taken"
	CodePolicyNotOwned   = "policy_not_owned"
	CodePolicyLimit      = "policy_limit"
	CodeRolloutUnderWay  = "rollout_under_way"
	CodeNotStaged        = "not_staged"
	CodeNoRollout        = "no_rollout"
	CodeWaveConflict     = "wave_conflict"
	CodeNodeIDTaken      = "node_id_taken"
	CodeStaleEvent       = "stale_event"
	CodeNameTaken        = "name_taken"
	CodePriorityTaken    = "priority_taken"
	CodeVersionNotNewer  = "version_not_newer"
	CodeSignerNotTrusted = "signer_not_trusted"
	CodeBadSignature     = "bad_signature"
	CodeQuotaExceeded    = "quota_exceeded"
	CodeProjectArchived  = "project_archived"
	CodeProjectInUse     = "project_in_use"

	CodeTokenConsumed  = "token_consumed"
	CodeTokenExpired   = "token_expired"
	CodeTokenRevoked   = "token_revoked"
	CodeNonceCollision = "nonce_collision"
)

// entry is a message made ready for the fold: everything that needs no state
// is done before the lock is taken.
type entry struct {
	msg      streams.Message
	event    policy.Event // nil when the body could not be read at all
	fault    *policy.DecodeError
	ruleset  compiler.Ruleset // of a revision without fault, staged or published
	released *released        // of a release without fault
	names    names
	body     [32]byte // sha256 of the body
	chain    [32]byte // the chain hash with it
	older    *olderHashes
	trace    streams.Trace // of the request that caused it, if it says
	ours     bool          // a worker appended it, as far as Metrics.Ours knows
	claimed  bool          // the subject says of the event what it says itself
	size     int           // of the message, as the log has it
	weight   int           // about the bytes that it keeps in memory, in those of the log
}

// projectSchema is the newest that an event of a project may claim that does not
// need it. It rises only with an event of the plane's own that says so
// before (see ofProject).
const projectSchema = 5

// NewerEventError means that an event of the plane's own was written under a
// schema this binary does not know. Skipping it would show a smaller world, so the
// fold stops.
type NewerEventError struct {
	Seq    uint64
	Schema string
}

// Error says which event and what to do.
func (e *NewerEventError) Error() string {
	return fmt.Sprintf("event %d has schema %s, this binary folds up to %s%d: run a newer binary", e.Seq, e.Schema, wire.PrefixSchema, policy.NewestSchema)
}

func prepare(m streams.Message) (entry, error) {
	ev, err := policy.Decode(m.Body)
	e := entry{msg: m, size: m.Stored(), body: sha256.Sum256(m.Body), names: namesOf(&m, ev)}
	if v := m.Header[wire.HeaderDataSchema]; len(v) > 0 && above(v[0], projectSchema) {
		switch own := !ofProject(m.Subject); {
		case own && newer(v[0]):
			return e, &NewerEventError{Seq: m.Seq, Schema: v[0]}
		case own, err == nil && wire.IsDataSchema(v[0], ev):
			return e.decode(ev, err)
		}
		e.fault = &policy.DecodeError{Code: policy.Undecodable, Violations: policy.Violations{{
			Code: policy.Undecodable, Detail: fmt.Sprintf("schema %.40q is newer than any that an event of the plane's own has said: name an older one, or have the plane upgraded first", v[0]),
		}}}
		return e, nil
	}
	return e.decode(ev, err)
}

// decode makes ready what the body decodes to.
func (e entry) decode(ev policy.Event, err error) (entry, error) {
	m := &e.msg
	if t := m.Get(wire.HeaderTraceparent); t != "" {
		e.trace, _ = streams.ParseTrace(t)
	}
	if err != nil {
		var fault *policy.DecodeError
		if !errors.As(err, &fault) {
			return e, fmt.Errorf("decode event %d: %w", m.Seq, err)
		}
		e.fault = fault
	}
	e.event = ev
	if ev != nil {
		var buf [192]byte
		e.claimed = string(wire.AppendSubject(buf[:0], ev)) == m.Subject
	}
	if rc, ok := ev.(policy.RevisionCreated); ok && e.fault == nil {
		e.ruleset = compiler.Compile(rc.Revision.InForce())
	}
	if rs, ok := ev.(policy.RevisionStaged); ok && e.fault == nil {
		e.ruleset = compiler.Compile(rs.Revision.InForce())
	}
	if ar, ok := ev.(policy.ArtifactReleased); ok && e.fault == nil {
		e.released, e.fault = readReleased(ar)
	}
	return e, nil
}

// ofProject reports whether an event is of a family that operators of projects
// append to. One of these that claims a newer schema than the plane's own events
// have said by then is rejected, by every binary ever: it would let whoever
// operates one project stop all workers for good. What needs its schema, as a
// revision does that says a direction, is accepted: older workers, which reject it,
// reject its body whatever it claims.
func ofProject(subject string) bool {
	c, ok := wire.ParseSubject(subject)
	return ok && c.Project != uuid.Nil
}

// newer reports whether this binary does not know a data schema of ours.
func newer(schema string) bool { return above(schema, policy.NewestSchema) }

// above reports whether a data schema is one of ours with a larger number.
func above(schema string, known uint64) bool {
	n, ok := wire.SchemaNumber(schema)
	return ok && exceeds(n, known)
}

func exceeds(number string, known uint64) bool {
	v, err := strconv.ParseUint(number, 10, 64)
	return v > known && (err == nil || errors.Is(err, strconv.ErrRange))
}

// Verdict is what the fold made of one event: applied, unless Duplicate or
// Rejection says otherwise.
type Verdict struct {
	Seq uint64
	// Duplicate is an event seen before, or a deletion of what is gone:
	// neither applied nor rejected.
	Duplicate bool
	Rejection *streams.Rejection
}

var duplicate = Verdict{Duplicate: true}

// reject builds a verdict; the caller fills in the event.
func reject(code, format string, args ...any) Verdict {
	return Verdict{Rejection: &streams.Rejection{Code: code, Detail: fmt.Sprintf(format, args...)}}
}

// claimFault compares what an event says of itself with what its subject says.
func claimFault(e *entry) (Verdict, bool) {
	if e.claimed {
		return Verdict{}, false
	}
	c, ok := wire.ParseSubject(e.msg.Subject)
	if !ok {
		return reject(CodeSubjectMismatch, "subject %s is not %s", e.msg.Subject, logForms()), true
	}
	family, id := policy.KindOf(e.event).Family, string(policy.AppendKey(nil, e.event))
	if c.Family != family.Name || c.Project != e.event.Scope() || c.ID != id {
		return reject(CodeSubjectMismatch, "the event is about %s, its subject says %s",
			placed(family, id, e.event.Scope()), placed(policy.FamilyNamed(c.Family), c.ID, c.Project)), true
	}
	return Verdict{}, false
}

// logForms lists the forms that a log subject can have.
func logForms() string {
	var forms []string
	for _, f := range policy.Families() {
		forms = append(forms, wire.LogForm(f))
	}
	last := len(forms) - 1
	return strings.Join(forms[:last], ", ") + " or " + forms[last]
}

// placed names what an event or a subject is about.
func placed(family *policy.Family, id string, project uuid.UUID) string {
	if family.Plane {
		return family.Noun + " " + id
	}
	return fmt.Sprintf("%s %s of project %s", family.Noun, id, project)
}

// nowhere reports whether an event is about an id that reads as if there were none:
// a node, say, may be called so.
func nowhere(e policy.Event) bool { return string(policy.AppendKey(nil, e)) == uuid.Nil.String() }
