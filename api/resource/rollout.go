package resource

import (
	"time"

	"github.com/google/uuid"
)

// Promotion asks that the staged revision becomes the head. Waves is nil for at
// once; a percent that is nil is the plane's choice.
type Promotion struct {
	RevisionID        *uuid.UUID `json:"revision_id,omitempty" doc:"The revision that is staged; absent: whichever is."`
	Waves             []string   `json:"waves,omitempty" doc:"The nodes that get it before the others: label selectors, in order. After them come all other nodes. None: all at once."`
	MinAppliedPercent *int       `json:"min_applied_percent,omitempty" doc:"How many of the nodes reached should have applied it before the next wave opens; 95 when absent."`
	MaxRefusedPercent *int       `json:"max_refused_percent,omitempty" doc:"How many of them may refuse it; with more the rollout stops. 1 when absent."`
	OnRefusal         string     `json:"on_refusal,omitempty" doc:"What becomes of a rollout that stops. stop: nodes keep what they have, and a person goes on or aborts. abort: it ends, and all nodes go back to the head. stop when absent."`
}

// NextWave asks for the next wave of a rollout.
type NextWave struct {
	RevisionID *uuid.UUID `json:"revision_id,omitempty" doc:"The revision that is being rolled out; absent: whichever is."`
	Wave       int        `json:"wave" doc:"The number of the wave, the next one; that after the last which is named has all other nodes."`
}

// Abort asks that a rollout ends and its nodes go back to the head.
type Abort struct {
	RevisionID *uuid.UUID `json:"revision_id,omitempty" doc:"The revision that is staged or being rolled out; absent: whichever is."`
	Reason     string     `json:"reason,omitempty" doc:"Why, for people: one line."`
}

// Waves is a staged revision and how far its rollout has come.
type Waves struct {
	RevisionID        uuid.UUID `json:"revision_id" doc:"The staged revision."`
	ParentRevisionID  uuid.UUID `json:"parent_revision_id" doc:"The head that it was staged upon."`
	Phase             string    `json:"phase" doc:"staged: no node is sent it. progressing: the nodes of the open waves have it. stopped: likewise, but too many of them refused it, and no wave opens by itself. completed: it is the head, or was. aborted: its author wished so, or it stopped and was to go back; all nodes have the head."`
	Waves             []string  `json:"waves" doc:"The waves that are named, in order."`
	Opened            int       `json:"opened" doc:"How many waves were opened; one more than are named: all nodes."`
	MinAppliedPercent int       `json:"min_applied_percent" doc:"How many of the nodes reached should have applied it before the next wave opens."`
	MaxRefusedPercent int       `json:"max_refused_percent" doc:"How many of them may refuse it; with more the rollout stops."`
	OnRefusal         string    `json:"on_refusal" doc:"What becomes of it then: stop, nodes keep what they have; abort, all go back to the head."`
	Reason            string    `json:"reason,omitempty" doc:"Why it was stopped or aborted."`
	Reached           *Reached  `json:"reached,omitempty" doc:"In the answer to getRollout, while waves are open: what their nodes report."`
	WaitsFor          string    `json:"waits_for,omitempty" doc:"Likewise, for people: what is not so yet that must be before the next wave opens by itself."`
	UpdatedAt         time.Time `json:"updated_at" doc:"The log timestamp of the last event that changed it."`
	// Admission is in the answer to a write alone; nil: policies left it as it came.
	Admission *AdmissionNote `json:"admission,omitempty" doc:"What admission policies made of what was sent to be staged; absent when they left it as it was."`
}

// Reached counts the nodes of the open waves to which a rollout gave other rules.
type Reached struct {
	Nodes   int `json:"nodes" doc:"Of the open waves, those whose rules of the policy the rollout changed."`
	Applied int `json:"applied" doc:"Of these, those that reported that they have it. Silent nodes have not."`
	Refused int `json:"refused" doc:"Those that reported that they refused it."`
}
