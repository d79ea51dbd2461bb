package resource

import "time"

// Quota bounds what a project may have and add. What is 0, or absent, is not bounded.
type Quota struct {
	Policies        uint64 `json:"policies,omitempty" doc:"Policies that live."`
	Nodes           uint64 `json:"nodes,omitempty" doc:"Nodes."`
	LabelSets       uint64 `json:"label_sets,omitempty" doc:"Distinct label sets of nodes."`
	BytesPerDay     uint64 `json:"bytes_per_day,omitempty" doc:"Bytes of the log in 24 hours, of rejected events, too."`
	EventsPerSecond uint64 `json:"events_per_second,omitempty" doc:"Events that are applied in a second; as many may come at once."`
	EventsPerDay    uint64 `json:"events_per_day,omitempty" doc:"Events that are applied in 24 hours."`
}

// ProjectUse is what a project has and took.
type ProjectUse struct {
	Policies     uint64 `json:"policies" doc:"Policies that live."`
	Nodes        uint64 `json:"nodes" doc:"Nodes."`
	LabelSets    uint64 `json:"label_sets" doc:"Distinct label sets of nodes."`
	BytesPerDay  uint64 `json:"bytes_per_day" doc:"Bytes of the log in the last 24 hours."`
	EventsPerDay uint64 `json:"events_per_day" doc:"Events that were applied in the last 24 hours, counted since the project has a quota."`
}

// Project is a project with its quota, and what it uses of it.
type Project struct {
	ID    string     `json:"id" doc:"The project."`
	Quota Quota      `json:"quota" doc:"What it may have and add."`
	Seq   uint64     `json:"quota_seq,omitempty" doc:"The event that gave the quota; absent: it never had one."`
	Used  ProjectUse `json:"used" doc:"What it has and took."`
	Ready *time.Time `json:"ready_at,omitempty" doc:"When it may add another event; absent: now."`

	ArchivedAt *time.Time `json:"archived_at,omitempty" doc:"Since when it is archived."`
}

// ProjectChange archives a project, or restores it.
type ProjectChange struct {
	Archived bool `json:"archived" doc:"Whether the project takes no events."`
}
