package resource

import "time"

// FleetSample is what a worker knew of all nodes at a moment.
type FleetSample struct {
	Time       time.Time `json:"time" doc:"The moment, by the worker's clock."`
	LogSeq     uint64    `json:"log_seq" doc:"The log's last sequence."`
	AppliedSeq uint64    `json:"applied_seq" doc:"The last log sequence that the worker had folded."`
	ByState
	Streams int `json:"streams" doc:"Event streams of nodes that were open on this worker."`
}

// FleetHistory is the last hour of a worker.
type FleetHistory struct {
	EverySeconds int           `json:"every_seconds" doc:"How far apart the samples are, about."`
	Items        []FleetSample `json:"items" doc:"Samples, oldest first: of the last hour, or since the worker started."`
}
