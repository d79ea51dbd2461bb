package policy

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Names of the events about the rollout of a revision, on the wire.
const (
	TypeRevisionStaged   = "policy_revision_staged"
	TypeRevisionPromoted = "policy_revision_promoted"
	TypeWaveOpened       = "policy_wave_opened"
	TypeRolloutStopped   = "policy_rollout_stopped"
	TypeRolloutAborted   = "policy_rollout_aborted"
)

// RevisionStaged keeps a revision beside the head of its policy. No node is sent
// it. It takes the place of one that was staged before.
type RevisionStaged struct {
	ID       uuid.UUID
	Project  uuid.UUID
	Policy   uuid.UUID
	Revision Revision
}

// RevisionPromoted makes the staged revision the head: for the nodes of the first
// wave, or, without waves, for all.
type RevisionPromoted struct {
	ID       uuid.UUID
	Project  uuid.UUID
	Policy   uuid.UUID
	Revision uuid.UUID
	Promotion
}

// WaveOpened gives the revision of a rollout to the nodes of its next wave. Waves
// count from 1; the one after the last that is named has every other node, and the
// revision is the head from then on.
type WaveOpened struct {
	ID       uuid.UUID
	Project  uuid.UUID
	Policy   uuid.UUID
	Revision uuid.UUID
	Wave     uint8
	Gated    bool // because its gate was met: it does not open if the rollout has stopped
}

// RolloutStopped stops a rollout whose gate was broken, while Wave was the last that
// was open: nodes keep what they have. If its Gate says so it ends, and all nodes go
// back to the head.
type RolloutStopped struct {
	ID       uuid.UUID
	Project  uuid.UUID
	Policy   uuid.UUID
	Revision uuid.UUID
	Wave     uint8
	Reason   string // for people: one line of at most MaxReason bytes
}

// RolloutAborted ends a rollout, or drops what is staged, as its author wishes. All
// nodes go back to the head.
type RolloutAborted struct {
	ID       uuid.UUID
	Project  uuid.UUID
	Policy   uuid.UUID
	Revision uuid.UUID
	Reason   string // as that of RolloutStopped; may be empty
}

type rolloutMembers struct {
	revisionID uuid.UUID
	promotion  Promotion
	wave       uint8
	gated      bool
	reason     string
}

var revisionStaged = Kind{
	Type: TypeRevisionStaged, Family: ofPolicies,
	Schema: func(e Event) int {
		if e.(RevisionStaged).Revision.Order.Audit {
			return schemaAudit
		}
		return schemaRollout
	},
	Made: func(e Event) time.Time { return e.(RevisionStaged).Revision.CreatedAt },
	need: []string{"policy_id", "revision"},
	read: func(rec *record) Event { return RevisionStaged{rec.id, rec.project, rec.policy, rec.revision} },
	named: func(e Event) bool {
		return e.(RevisionStaged).Policy != uuid.Nil && e.(RevisionStaged).Revision.ID != uuid.Nil
	},
}

var revisionPromoted = Kind{
	Type: TypeRevisionPromoted, Family: ofPolicies, Schema: always(schemaRollout),
	Detail: func(e Event) string { return "waves " + string(AppendWaves(nil, e.(RevisionPromoted).Waves)) },
	need:   []string{"policy_id", "revision_id", "waves", "min_applied_percent", "max_refused_percent"}, may: []string{"on_refusal"},
	own: []member{
		{"revision_id", func(r *reader, rec *record) { rec.revisionID = r.uuid() }},
		{"waves", func(r *reader, rec *record) { rec.promotion.Waves = readWaves(r) }},
		{"min_applied_percent", func(r *reader, rec *record) { rec.promotion.Gate.MinApplied = readPercent(r) }},
		{"max_refused_percent", func(r *reader, rec *record) { rec.promotion.Gate.MaxRefused = readPercent(r) }},
		{"on_refusal", func(r *reader, rec *record) { rec.promotion.Gate.Abort = readOnRefusal(r) }},
	},
	read: func(rec *record) Event {
		return RevisionPromoted{rec.id, rec.project, rec.policy, rec.revisionID, rec.promotion}
	},
	named: func(e Event) bool { return e.(RevisionPromoted).Policy != uuid.Nil },
}

var waveOpened = Kind{
	Type: TypeWaveOpened, Family: ofPolicies, Schema: always(schemaRollout),
	Detail: func(e Event) string {
		if e.(WaveOpened).Gated {
			return "wave " + strconv.Itoa(int(e.(WaveOpened).Wave)) + ", its gate was met"
		}
		return "wave " + strconv.Itoa(int(e.(WaveOpened).Wave))
	},
	need: []string{"policy_id", "revision_id", "wave"}, may: []string{"gated"},
	own: []member{
		{"wave", func(r *reader, rec *record) { rec.wave = readWave(r) }},
		{"gated", func(r *reader, rec *record) { rec.gated = r.flag() }},
	},
	read: func(rec *record) Event {
		return WaveOpened{rec.id, rec.project, rec.policy, rec.revisionID, rec.wave, rec.gated}
	},
	named: func(e Event) bool { return e.(WaveOpened).Policy != uuid.Nil },
}

var rolloutStopped = Kind{
	Type: TypeRolloutStopped, Family: ofPolicies, Ends: true, Schema: always(schemaRollout),
	Detail: func(e Event) string { return e.(RolloutStopped).Reason },
	need:   []string{"policy_id", "revision_id", "wave", "reason"},
	own:    []member{{"reason", func(r *reader, rec *record) { rec.reason = readReason(r) }}},
	read: func(rec *record) Event {
		return RolloutStopped{rec.id, rec.project, rec.policy, rec.revisionID, rec.wave, rec.reason}
	},
	named: func(e Event) bool { return e.(RolloutStopped).Policy != uuid.Nil },
}

var rolloutAborted = Kind{
	Type: TypeRolloutAborted, Family: ofPolicies, Ends: true, Schema: always(schemaRollout),
	Detail: func(e Event) string { return e.(RolloutAborted).Reason },
	need:   []string{"policy_id", "revision_id"}, may: []string{"reason"},
	read: func(rec *record) Event {
		return RolloutAborted{rec.id, rec.project, rec.policy, rec.revisionID, rec.reason}
	},
	named: func(e Event) bool { return e.(RolloutAborted).Policy != uuid.Nil },
}

// EventID implements Event.
func (e RevisionStaged) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e RevisionPromoted) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e WaveOpened) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e RolloutStopped) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e RolloutAborted) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (RevisionStaged) EventType() string { return TypeRevisionStaged }

// EventType implements Event.
func (RevisionPromoted) EventType() string { return TypeRevisionPromoted }

// EventType implements Event.
func (WaveOpened) EventType() string { return TypeWaveOpened }

// EventType implements Event.
func (RolloutStopped) EventType() string { return TypeRolloutStopped }

// EventType implements Event.
func (RolloutAborted) EventType() string { return TypeRolloutAborted }

// Scope implements Event.
func (e RevisionStaged) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e RevisionPromoted) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e WaveOpened) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e RolloutStopped) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e RolloutAborted) Scope() uuid.UUID { return e.Project }

func (RevisionStaged) describe() *Kind   { return &revisionStaged }
func (RevisionPromoted) describe() *Kind { return &revisionPromoted }
func (WaveOpened) describe() *Kind       { return &waveOpened }
func (RolloutStopped) describe() *Kind   { return &rolloutStopped }
func (RolloutAborted) describe() *Kind   { return &rolloutAborted }

func (e RevisionStaged) appendKey(b []byte) []byte   { return appendUUID(b, e.Policy) }
func (e RevisionPromoted) appendKey(b []byte) []byte { return appendUUID(b, e.Policy) }
func (e WaveOpened) appendKey(b []byte) []byte       { return appendUUID(b, e.Policy) }
func (e RolloutStopped) appendKey(b []byte) []byte   { return appendUUID(b, e.Policy) }
func (e RolloutAborted) appendKey(b []byte) []byte   { return appendUUID(b, e.Policy) }

// appendRollout appends what names a rollout: its policy and its revision.
func appendRollout(b []byte, policy, revision uuid.UUID) []byte {
	b = appendID(append(b, `,"policy_id":`...), policy)
	return appendID(append(b, `,"revision_id":`...), revision)
}

func (e RevisionStaged) appendMembers(b []byte) []byte {
	b = appendID(append(b, `,"policy_id":`...), e.Policy)
	return AppendRevision(append(b, `,"revision":`...), e.Revision)
}

func (e RevisionPromoted) appendMembers(b []byte) []byte {
	b = AppendWaves(append(appendRollout(b, e.Policy, e.Revision), `,"waves":`...), e.Waves)
	b = strconv.AppendUint(append(b, `,"min_applied_percent":`...), uint64(e.Gate.MinApplied), 10)
	b = strconv.AppendUint(append(b, `,"max_refused_percent":`...), uint64(e.Gate.MaxRefused), 10)
	if e.Gate.Abort {
		b = append(b, `,"on_refusal":"abort"`...)
	}
	return b
}

func appendWave(b []byte, wave uint8) []byte {
	return strconv.AppendUint(append(b, `,"wave":`...), uint64(wave), 10)
}

func (e WaveOpened) appendMembers(b []byte) []byte {
	if b = appendWave(appendRollout(b, e.Policy, e.Revision), e.Wave); e.Gated {
		b = append(b, `,"gated":true`...)
	}
	return b
}

func (e RolloutStopped) appendMembers(b []byte) []byte {
	b = appendWave(appendRollout(b, e.Policy, e.Revision), e.Wave)
	return appendText(append(b, `,"reason":`...), e.Reason)
}

func (e RolloutAborted) appendMembers(b []byte) []byte {
	if b = appendRollout(b, e.Policy, e.Revision); e.Reason == "" {
		return b
	}
	return appendText(append(b, `,"reason":`...), e.Reason)
}
