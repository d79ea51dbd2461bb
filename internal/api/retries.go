package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// askedBy is what the log keeps of the body that a keyed write came with: SHA-256
// of its canonical JSON. Neither the event nor the read model could say it: a patch
// is merged, and admission policies may change what an author wrote.
func askedBy(body []byte) string {
	text := jsontext.Value(slices.Clone(body))
	if text.Canonicalize() != nil {
		text = body // no JSON, which whoever decodes it says
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// retries finds what an Idempotency-Key was used for before.
type retries struct {
	model interface {
		views
		Verdict(ctx context.Context, seq uint64) (projector.Verdict, error)
	}
	HistoryDeps
}

// sameBody refuses a key whose write was made with another body. The log has the
// event e once more than that, at a sequence where that is known, and else 0: e is one that
// the fold has met before. What the log cannot tell is taken for a retry: a write that newer
// ones have covered and whose place nobody knows any more, one of a
// release before, one that a producer of the same project made under this id.
func (t *retries) sameBody(ctx context.Context, e policy.Event, asked string, at uint64) error {
	if asked == "" || t.Event == nil || t.NextOf == nil || fault.Always(fault.AnyBody) {
		return nil
	}
	m, err := t.made(ctx, e)
	if errors.Is(err, streams.ErrNotFound) && at > 0 {
		m, err = t.standsAt(ctx, e, at)
	}
	if errors.Is(err, streams.ErrNotFound) {
		return nil
	}
	if err != nil {
		return unread(err)
	}
	return sameAs(m, asked)
}

// sameAs is sameBody of a write that was found.
func sameAs(m streams.Message, asked string) error {
	if first := m.Get(wire.HeaderRequest); asked == "" || first == "" || first == asked || fault.Always(fault.AnyBody) {
		return nil
	}
	return problem(http.StatusUnprocessableEntity, CodeKeyReused,
		"this Idempotency-Key was used for a write with another body, at %d, which stands as it was: send this one under a key of its own", m.Seq)
}

// unread is of a log that did not answer; nil without an error.
func unread(err error) error {
	if err == nil {
		return nil
	}
	return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log did not say what this Idempotency-Key was used for: %v", err)
}

// made is the message of the event e that took effect: where the read model says
// that it is, and of what changes seldom wherever the log has it.
func (t *retries) made(ctx context.Context, e policy.Event) (streams.Message, error) {
	seq, seldom, err := t.present(e)
	if err != nil {
		return streams.Message{}, err
	}
	if seq > 0 {
		m, err := t.standsAt(ctx, e, seq)
		if !errors.Is(err, streams.ErrNotFound) {
			return m, err
		}
	}
	for seq = 0; seldom; {
		m, err := t.NextOf(ctx, e, seq+1)
		if err != nil {
			return m, err
		}
		if v, err := t.model.Verdict(ctx, m.Seq); v.Rejection == nil && (err == nil || errors.Is(err, projector.ErrForgotten)) {
			return m, nil
		}
		seq = m.Seq
	}
	return streams.Message{}, streams.ErrNotFound
}

// standsAt is the message at a sequence, if it is of the event e.
func (t *retries) standsAt(ctx context.Context, e policy.Event, seq uint64) (streams.Message, error) {
	m, err := t.Event(ctx, seq)
	if errors.As(err, new(*streams.CompactedError)) {
		return m, streams.ErrNotFound
	}
	if err != nil {
		return m, err
	}
	if was, _ := policy.Decode(m.Body); was == nil || was.EventID() != e.EventID() {
		return m, streams.ErrNotFound
	}
	return m, nil
}

// present is the sequence of the event that gave what e is about its present state,
// or of the revision that e makes; 0: there is none. seldom says that there are few
// events about it.
func (t *retries) present(e policy.Event) (seq uint64, seldom bool, err error) {
	t.model.Read(func(v *projector.View) {
		switch e := e.(type) {
		case policy.NodeUpdated:
			n, _ := v.Node(e.Node)
			seq = n.Version
		case policy.ArtifactReleased:
			seq = v.Releases().Gave(e.Project, e.Node, e.ID)
		case policy.RevisionCreated:
			var r projector.RevisionInfo
			r, _, err = v.Revision(e.Project, e.Policy, e.Revision.ID)
			seq = r.Seq
		case policy.AdmissionPolicyUpdated:
			a, _ := v.Admission().Policy(e.Policy)
			seq, seldom = a.Version, true
		case policy.PrincipalUpdated:
			w, _ := v.Principal(e.Principal)
			seq, seldom = w.Version, true
		case policy.ProjectQuotaUpdated, policy.ProjectArchived, policy.ProjectRestored, policy.RevisionStaged, policy.RevisionPromoted, policy.WaveOpened, policy.RolloutAborted:
			seldom = true // the read model does not say which event it was
		}
	})
	return seq, seldom, err
}
