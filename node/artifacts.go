package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// TypeArtifactUpdated says that an artifact of the node was released or
// withdrawn. Its payload is a hint: nobody but the plane signed it, so a node
// pulls the whole set and believes what is signed in there.
const TypeArtifactUpdated = wire.TypeArtifactUpdated

// Artifact is what the plane holds of one artifact of a node. None of it is
// verified but by who reads the document.
type Artifact struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Version  uint64 `json:"version"`
	Document string `json:"document"` // the signed text, as it was released
}

// Artifacts is a node's whole set as it was pulled.
type Artifacts struct {
	// ID is the event id after which nothing is missed by who holds this set.
	ID    policy.EventID
	Items []Artifact
}

// FollowArtifacts calls take with the artifacts of node id: as they are now, and
// again whenever the plane says that they changed, one call at a time. When the
// plane goes away it resumes. It ends when ctx does, with nil, or as
// Follower.Run does. An error of take is met like a connection that failed: the
// set is pulled and taken again after a pause.
func FollowArtifacts(ctx context.Context, server string, id policy.NodeID, opt Options, take func(Artifacts) error) error {
	f := NewFollower(server, id, opt)
	f.artifacts = true
	f.puller = func(ctx context.Context) (State, error) {
		set, err := f.pullArtifacts(ctx)
		if err == nil {
			err = take(set)
		}
		return State{ID: set.ID}, err
	}
	return f.Run(ctx, func(Event) error { return nil })
}

func decodeReleased(id policy.NodeID, payload []byte) (*wire.ArtifactUpdated, error) {
	var r wire.ArtifactUpdated
	if err := json.Unmarshal(payload, &r); err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if r.NodeID != id {
		return nil, fmt.Errorf("it is about node %.80q", r.NodeID)
	}
	return &r, nil
}

// covers reports whether a set stands at or after what was released.
func covers(set Artifacts, r *wire.ArtifactUpdated) bool {
	withdrawn := r.Document != nil && *r.Document == ""
	for _, a := range set.Items {
		if a.Kind == r.Kind && a.Name == r.Name {
			return withdrawn || a.Version >= r.Version
		}
	}
	return withdrawn
}

// A server may announce what another one folded before it did: its set is then
// asked for again, at growing intervals.
const (
	hintTries = 8
	hintPause = 10 * time.Millisecond
)

// pullArtifacts fetches the whole set, one that has what was announced last. A
// set that never gets there is taken as it is: it may have moved on.
func (f *Follower) pullArtifacts(ctx context.Context) (set Artifacts, err error) {
	pause := hintPause
	for range hintTries {
		if set, err = f.getArtifacts(ctx); err != nil || f.hint == nil || covers(set, f.hint) {
			return set, err
		}
		sleep(ctx, pause)
		pause *= 2
	}
	return set, ctx.Err()
}

func (f *Follower) getArtifacts(ctx context.Context) (Artifacts, error) {
	body, header, err := f.getAtMost(ctx, "/v1/nodes/"+string(f.id)+"/artifacts", maxArtifacts)
	if err != nil {
		return Artifacts{}, fmt.Errorf("pull the artifacts: %w", err)
	}
	var doc struct {
		Items []Artifact `json:"items"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return Artifacts{}, fmt.Errorf("pull the artifacts: %w", err)
	}
	id, err := standsAt(header)
	return Artifacts{id, doc.Items}, err
}

// maxArtifacts bounds a pulled set, in bytes: what fits a message of the log may
// double when it is quoted.
const maxArtifacts = 2 * maxFrame

// announced handles an artifact_updated of a follower of artifacts.
func (f *Follower) announced(ctx context.Context, e *Event) error {
	if e.Covered = e.ID <= f.pulled; e.Covered {
		return nil
	}
	r, err := decodeReleased(f.id, e.Notice.Payload)
	if err != nil {
		return &refusal{e.ID.String(), err}
	}
	f.hint = r
	defer func() { f.hint = nil }()
	s, err := f.puller(ctx)
	if err == nil {
		f.take(s)
	}
	return err
}
