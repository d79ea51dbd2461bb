package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// TypeArtifactUpdated says that an artifact of the node was released or
// withdrawn. Its payload is a hint that only the plane has signed, so a node pulls the
// whole set and verifies the signatures in it.
const TypeArtifactUpdated = wire.TypeArtifactUpdated

// Artifact is one artifact of a node as the plane has it. Nothing in it is verified:
// the reader of the document does that.
type Artifact struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Rete     string `json:"rete"` // of what is not of the node's first rete
	Version  uint64 `json:"version"`
	Document string `json:"document"` // the signed text, as it was released
}

// Artifacts is what a node holds as it was pulled: a whole set of each of its retes.
type Artifacts struct {
	// ID is the event id to resume after: this set has everything up to it.
	ID    policy.EventID
	Items []Artifact
	// Traceparent names the trace of the change that the set was pulled for, as in Event.
	Traceparent string
}

// FollowArtifacts calls take with the artifacts of node id: as they are now, and
// again whenever the plane sends that they changed, one call at a time. It resumes
// when the connection is lost. It ends when ctx does, with nil, or as Follower.Run
// does. An error of take is treated like a failed connection: after a pause the set is
// pulled and taken again. The server is needed with Options.NATS, too: sets are pulled.
// Options.From does not count, and Options.State keeps whom to trust: it is another file
// than that of a [Follower].
func FollowArtifacts(ctx context.Context, server string, id policy.NodeID, opt Options, take func(Artifacts) error) error {
	if server == "" {
		return errors.New("artifacts are pulled over HTTP: name a server that has them")
	}
	opt.From = nil
	f := NewFollower(server, id, opt)
	f.artifacts = true
	f.puller = func(ctx context.Context) (State, error) {
		set, err := f.pullArtifacts(ctx)
		if set.Traceparent = f.hintTrace; err == nil {
			if err = take(set); err != nil {
				err = &takeError{err}
			}
		}
		return State{ID: set.ID}, err
	}
	return f.Run(ctx, func(Event) error { return nil })
}

// takeError is an error of the caller's, whatever it wraps: no answer of the plane.
type takeError struct{ error }

func (e *takeError) Unwrap() error { return e.error }

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

// covers reports whether a set has the released version, or a later one.
func covers(set Artifacts, r *wire.ArtifactUpdated) bool {
	withdrawn := r.Document != nil && *r.Document == ""
	for _, a := range set.Items {
		if a.Kind == r.Kind && a.Name == r.Name && a.Rete == r.Rete {
			return withdrawn || a.Version >= r.Version
		}
	}
	return withdrawn
}

// A pull may be answered by a server whose fold is behind the one that sent the
// message. The set is then pulled again, at growing intervals.
const (
	hintTries = 8
	hintPause = 20 * time.Millisecond // of the first, at least a half
)

// pullArtifacts fetches the whole set. It tries until the set has the artifact of the
// last message. After hintTries it takes the set as it is: it may have moved on.
func (f *Follower) pullArtifacts(ctx context.Context) (set Artifacts, err error) {
	again := backoff.Backoff{Least: hintPause, Most: hintPause << hintTries}
	for try := 1; ; try++ {
		set, err = f.documents.artifacts(ctx)
		if err != nil || f.hint == nil || covers(set, f.hint) || try == hintTries {
			return set, err
		}
		if err := again.Pause(ctx); err != nil {
			return set, err
		}
	}
}

func (d *documents) artifacts(ctx context.Context) (Artifacts, error) {
	body, header, err := d.get(ctx, d.url("/artifacts"), maxArtifacts)
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
	return Artifacts{ID: id, Items: doc.Items}, err
}

// maxArtifacts bounds a pulled set, in bytes: quoting may double what fits into one
// message of the log.
const maxArtifacts = 2 * maxFrame

// artifactUpdated handles an artifact_updated of a follower of artifacts.
func (f *Follower) artifactUpdated(ctx context.Context, e *Event) error {
	if e.Covered = e.ID <= f.pulled; e.Covered {
		return nil
	}
	payload := e.Notice.Payload
	if f.opt.NATS != "" {
		payload = e.Envelope.Payload
	}
	r, err := decodeReleased(f.id, payload)
	if err != nil {
		return &refusal{e.ID.String(), err}
	}
	f.hint, f.hintTrace = r, e.Traceparent
	defer func() { f.hint, f.hintTrace = nil, "" }()
	s, err := f.puller(ctx)
	if err == nil {
		f.take(s)
	}
	return err
}
