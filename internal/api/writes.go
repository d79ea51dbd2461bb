package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

var (
	// errUnchanged ends a check with: the facts are so already, write nothing.
	errUnchanged = errors.New("unchanged")
	// errUnknown ends a check with: there is no such thing yet, write the first.
	errUnknown = errors.New("unknown")
)

// writes appends what a request asks for to the log, and waits for the fold's
// verdict.
type writes struct {
	*retries
	log interface {
		Publish(ctx context.Context, a streams.Append) (seq uint64, duplicate bool, err error)
		PublishAll(ctx context.Context, as []streams.Append) (seqs []uint64, err error)
		// LastOf is the sequence of the last event on the subject of e; 0: there is none.
		LastOf(ctx context.Context, e policy.Event) (uint64, error)
	}
	model interface {
		Applied() uint64
		Verdict(ctx context.Context, seq uint64) (projector.Verdict, error)
	}
	reads    *reads
	gate     *writeGate
	quota    *quota
	lanes    *lanes
	tracing  *tracing
	recent   *recentWrites
	patience time.Duration // of a write for its verdict
	clock    func() time.Time
	newID    func() (uuid.UUID, error)
}

// commit appends one event and waits for the fold's verdict. An error is the
// problem to answer with: the fold's refusal, or that no verdict came in time.
// created is remembered for a retry under the same key.
func (w *writes) commit(c *call, e policy.Event, created bool) (projector.Verdict, error) {
	return w.append(c, streams.Append{Event: e}, created)
}

// append is commit of an event that may be in the log already.
func (w *writes) append(c *call, a streams.Append, created bool) (projector.Verdict, error) {
	e := a.Event
	if err := w.gate.check(); err != nil {
		return projector.Verdict{}, err
	}
	if err := w.quota.check(c, e); err != nil {
		return projector.Verdict{}, err
	}
	if c.dry {
		return projector.Verdict{}, w.dryRun(c, e)
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), w.patience)
	defer cancel()
	leave, err := w.lanes.enter(ctx, e.Scope())
	if err != nil {
		return projector.Verdict{}, unsent(err)
	}
	defer leave() // at the latest
	trace, done := w.tracing.publishing(c, e.EventType(), 1)
	fault.Pass(fault.AppendBefore)
	a.Traceparent, a.Principal, a.Correlation, a.Request = trace.String(), c.author(), c.correlation, c.asked
	seq, stood, err := w.log.Publish(ctx, a)
	leave()
	fault.Pass(fault.AppendAfter)
	done(seq, err)
	if fault.Always(fault.Unacknowledged) && errors.Is(err, streams.ErrUnknown) {
		return projector.Verdict{}, nil
	}
	if a.After > 0 && errors.Is(err, streams.ErrWrongSequence) {
		return projector.Verdict{}, errMoved
	}
	if err != nil {
		return projector.Verdict{}, unpublished(err)
	}
	if c.key != "" {
		w.recent.put(e.EventID(), recentWrite{seq, created})
	}
	v, err := w.verdict(ctx, seq)
	if v.Rejection != nil {
		w.recent.forget(e.EventID())
		if stood && !a.Again { // for what it met then, and now it may meet something else
			a.Again = true
			return w.append(c, a, created)
		}
	}
	if err == nil && (stood || v.Duplicate) {
		if err = w.sameBody(ctx, e, c.asked, seq); err != nil {
			w.recent.forget(e.EventID())
		}
	}
	fault.Pass(fault.AcknowledgeBefore)
	return v, err
}

// appendAll appends events of one kind and one project, and does not wait for
// their verdicts.
func (w *writes) appendAll(c *call, kind string, events []streams.Append) ([]uint64, error) {
	if err := w.gate.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), w.patience)
	defer cancel()
	leave, err := w.lanes.enter(ctx, events[0].Event.Scope())
	if err != nil {
		return nil, unsent(err)
	}
	defer leave()
	trace, done := w.tracing.publishing(c, kind, len(events))
	for i := range events {
		events[i].Traceparent = trace.String()
	}
	seqs, err := w.log.PublishAll(ctx, events)
	var last uint64
	if len(seqs) > 0 {
		last = seqs[len(seqs)-1]
	}
	done(last, err)
	if err != nil {
		return nil, unpublished(err)
	}
	return seqs, nil
}

// insist makes a change that names no version it is for: what others changed in
// between is taken into account, not a conflict. try reads what there is, and
// appends; it is passed whether the event was refused before, and is repeated
// while the fold says revision_conflict, at a growing distance and for as long as a
// write may take.
func (w *writes) insist(c *call, try func(again bool) error) error {
	if err := w.reads.catchUp(c, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), w.patience)
	defer cancel()
	var pace backoff.Backoff
	for again := false; ; again = true {
		err := try(again)
		var pr *resource.Problem
		switch {
		case !errors.As(err, &pr) || pr.Code != projector.CodeRevisionConflict:
			return err
		case pace.Pause(ctx) != nil:
			return contended()
		}
	}
}

// madeBefore finds a keyed write that this process made lately.
func (w *writes) madeBefore(c *call, e policy.Event) (seq uint64, created, ok bool) {
	if c.key == "" {
		return 0, false, false
	}
	was, ok := w.recent.get(e.EventID())
	return was.seq, was.created, ok
}

// await is the verdict of an event that was appended before, if the request is
// what it was then.
func (w *writes) await(c *call, e policy.Event, seq uint64) (projector.Verdict, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), w.patience)
	defer cancel()
	v, err := w.verdict(ctx, seq)
	if v.Rejection != nil {
		w.recent.forget(e.EventID()) // who sends it again after this answer makes another try
	}
	if err == nil {
		err = w.sameBody(ctx, e, c.asked, seq)
	}
	return v, err
}

// verdict waits for the fold. A verdict that is forgotten was given long ago
// to an event sent again, and was no refusal: those are kept.
func (w *writes) verdict(ctx context.Context, seq uint64) (projector.Verdict, error) {
	v, err := w.model.Verdict(ctx, seq)
	switch {
	case errors.Is(err, projector.ErrForgotten):
		return projector.Verdict{Seq: seq, Duplicate: true}, nil
	case err != nil && ctx.Err() != nil:
		return v, behind(seq, w.model.Applied())
	case err != nil:
		return v, err
	case v.Rejection != nil:
		return v, refused(v.Rejection)
	}
	return v, nil
}

// unpublished is an append that was not acknowledged. Unless the log said that
// it is full, or the event too large, it may be stored all the same: only a retry under
// the same Idempotency-Key is the same write.
func unpublished(err error) *resource.Problem {
	if errors.Is(err, streams.ErrMessageTooLarge) {
		return problem(http.StatusRequestEntityTooLarge, CodeBodyTooLarge,
			"the log's servers take no event as large as this one, so it was not written: write less at once, "+
				"or raise max_payload of the servers and max_msg_size of stream %s (%v)", streams.LogStream, err)
	}
	if errors.Is(err, streams.ErrStorage) {
		return problem(http.StatusInsufficientStorage, CodeStorageLow, "the log takes no more events: %v", err)
	}
	return problem(http.StatusServiceUnavailable, CodeLogUnavailable,
		"the plane's log does not answer just now, so this write may be stored or not; "+
			"a retry with the same Idempotency-Key is the same write (%v)", err)
}

// unsent is of a write whose turn did not come in time.
func unsent(err error) *resource.Problem {
	return problem(http.StatusServiceUnavailable, CodeLogUnavailable,
		"the project has other writes under way, and the turn of this one did not come (%v): nothing was written", err)
}

// id makes the id of one thing a write creates. Without an Idempotency-Key it
// is a fresh UUIDv7. With one it is the UUIDv8 of SHA-256 over principal,
// project, key and role (docs/design.md#the-fold-is-the-judge), so a retry makes the same ids and
// the log meets the same event twice. role names the operation, its target and
// the thing: one key used for two writes is two writes.
func (w *writes) id(c *call, project uuid.UUID, role string) (uuid.UUID, error) {
	if c.key == "" {
		id, err := w.newID()
		if err != nil {
			return uuid.Nil, fmt.Errorf("make an id: %w", err)
		}
		return id, nil
	}
	c.asked = c.digest
	if fault.Always(fault.SharedKey) {
		return derivedID("", project, c.key, role), nil
	}
	return derivedID(c.principal, project, c.key, role), nil
}

// refusal is the code with which the fold would reject an event now; "": it would
// not. The fold's own detail is for whoever reads its rejections.
func (w *writes) refusal(v *projector.View, e policy.Event) string {
	if r := v.WouldAccept(e, w.clock()).Rejection; r != nil {
		return r.Code
	}
	return ""
}

// remove ends what e is about: 204 when it was there, and again for a retry
// under the same key.
func (w *writes) remove(c *call, e policy.Event, exists func(v *projector.View) error) error {
	return w.removeIf(c, e, condition{}, func(v *projector.View) (string, error) { return "", exists(v) })
}

// removeIf is remove of what is in a state that only names; present gives its ETag.
func (w *writes) removeIf(c *call, e policy.Event, only condition, present func(v *projector.View) (tag string, err error)) error {
	if seq, _, ok := w.madeBefore(c, e); ok {
		if _, err := w.await(c, e, seq); err != nil {
			return err
		}
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	check := func(v *projector.View) error {
		tag, err := present(v)
		if err != nil {
			return err
		}
		return only.holds(tag)
	}
	if err := w.reads.check(c, check); err != nil {
		ended, failed := w.endedBefore(c, e)
		if !ended {
			return cmp.Or(failed, err)
		}
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	commit := func() (projector.Verdict, error) { return w.commit(c, e, false) }
	if only.named() {
		commit = func() (projector.Verdict, error) { return w.provided(c, e, check) }
	}
	if _, err := commit(); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// endedBefore reports whether a request under this key, at whichever worker, ended what e is
// about, so that it is not there any more: then that is the last event about it.
func (w *writes) endedBefore(c *call, e policy.Event) (bool, error) {
	if c.key == "" || w.Event == nil {
		return false, nil
	}
	ctx := c.r.Context()
	seq, err := w.log.LastOf(ctx, e)
	if err != nil || seq == 0 {
		return false, unread(err)
	}
	m, err := w.Event(ctx, seq)
	if errors.Is(err, streams.ErrNotFound) || errors.As(err, new(*streams.CompactedError)) {
		return false, nil
	}
	if err != nil {
		return false, unread(err)
	}
	was, _ := policy.Decode(m.Body)
	return was != nil && was.EventID() == e.EventID() && was.EventType() == e.EventType(), nil
}

// derivedID hashes each field behind its length, so that no two lists of
// fields run together.
func derivedID(principal string, project uuid.UUID, key, role string) uuid.UUID {
	h := sha256.New()
	for _, field := range [...]string{principal, string(project[:]), key, role} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(field))))
		h.Write([]byte(field))
	}
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80 // version 8
	id[8] = id[8]&0x3f | 0x80 // RFC 9562 variant
	return id
}
