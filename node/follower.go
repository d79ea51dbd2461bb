package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// refusals is how often in a row an event may be refused before a Follower gives up.
// To request it again helps if it was damaged on the way, but not if the server has it
// wrong.
const refusals = 3

// Follower follows one node. Run or Events may be called once at a time; Rows,
// Merged and Cursor at any time from any goroutine.
type Follower struct {
	id            policy.NodeID
	opt           Options
	documents     documents
	own           *http.Transport // made here, closed here
	trust         *artifact.TrustSet
	askKeys       bool     // whether the plane is asked for keys
	given         []string // ids of the keys it was given
	learned       bool     // a key was announced since
	haveKeys      bool
	begun         bool           // the cursor says where to go on
	blockAt       policy.EventID // the block that was pulled last is at or after it
	unresolved    bool           // the block of the state that was pulled last is not known any more
	seen          policy.EventID // the last event handled
	unhandled     policy.EventID // its row was taken, and its block not: nobody has heard of it
	owed          string         // why the state is to be pulled, over NATS, since a pull failed; "": it is not
	pulled        policy.EventID // the rows are at or after it
	cursor        atomic.Uint64
	position      atomic.Uint64 // the event id that the rows are at; 0 until they are complete
	rows          set
	refused       int  // events refused in a row
	polling       bool // the stream was given up: what comes cannot be read
	streamErr     atomic.Pointer[error]
	forged        atomic.Uint64
	overrun       atomic.Uint64 // times the NATS client began to drop what nobody read
	restored      bool          // the state file was read
	splice        *splice
	largest       int    // bytes of an event of the stream
	largestAnswer int    // bytes of an answer over NATS
	log           string // which log the last answer was about
	base          uint64 // that ids of the last answer were counted from; 0: not known
	puller        func(context.Context) (State, error)

	artifacts bool                  // artifacts are followed, and policies are not
	hint      *wire.ArtifactUpdated // what a pull of artifacts should have
	hintTrace string                // traceparent of the message that said so
}

// NewFollower makes a follower of node id at a server such as
// http://127.0.0.1:8080. Nothing is started. With Options.NATS and
// Options.Trust the server may be empty: a pull is then a replay request over NATS for
// everything that the node has now. An address that can be none is refused where it is
// followed, with an *AddressError, and so is an id that policy.ParseNodeID refuses.
func NewFollower(server string, id policy.NodeID, opt Options) *Follower {
	opt = opt.withDefaults()
	f := &Follower{
		id: id, opt: opt, trust: opt.Trust, askKeys: opt.Trust == nil, largest: maxFrame, largestAnswer: maxAnswer,
		documents: documents{strings.TrimRight(server, "/"), id, opt.HTTP, opt.Silence},
	}
	if opt.HTTP == nil {
		f.own = newTransport(opt.Silence)
		f.own.ResponseHeaderTimeout = opt.Silence
		f.documents.client = &http.Client{Transport: f.own}
	}
	if f.askKeys {
		f.trust = artifact.NewTrustSet()
		f.trust.Now = opt.Now
	}
	f.given = keyIDs(f.trust.Keys(artifact.PlanePolicy))
	f.setStreamError(errNotYet)
	f.puller = f.documents.pull
	if opt.From != nil {
		f.begin(*opt.From)
	}
	return f
}

// Rows returns the rows that the node has received, by ascending policy id. They are
// complete after a pull or a resume from 0.
func (f *Follower) Rows() []Row { return f.rows.list() }

// Merged is the set of rules the node must apply: those of its rows, or of the state
// that was pulled last where that is resolved. The state is pulled again where an event says
// that it is resolved, or the rows conflict. What changes it alone is not known here before the
// next pull: addresses of the node, or of a peer, of which a CIDR of a rule holds some and not
// all (with Options.Tables those of a peer are announced). Who enforces it pulls /state on a
// timer too, or enforces the table. A Follower without a server has the rows alone, which may
// then let through what is denied (docs/nodes-on-nats.md).
func (f *Follower) Merged() compiler.Block { return f.rows.block() }

// Cursor is the event id to resume after: nothing up to it is missing from Rows.
func (f *Follower) Cursor() policy.EventID { return policy.EventID(f.cursor.Load()) }

var errNotYet = errors.New("the plane was not reached yet")

// StreamError is why events do not arrive as they happen: the plane cannot be reached,
// or what it sends cannot be read (*UnreadableError). Nil: they arrive, as far as is
// known.
func (f *Follower) StreamError() error { return *f.streamErr.Load() }

// setStreamError notes whether events arrive.
func (f *Follower) setStreamError(err error) { f.streamErr.Store(&err) }

// opened notes that a stream is open. Who read that it had ended reads that it goes on.
func (f *Follower) opened() {
	if err := f.StreamError(); err != nil && !errors.Is(err, errNotYet) {
		f.opt.Log.Info("the event stream goes on", "node", f.id, "after", f.Cursor())
	}
	f.setStreamError(nil)
	f.opt.Connected()
}

// Refused counts live messages over NATS that were not the plane's, or not
// meant for this node. They were dropped.
func (f *Follower) Refused() uint64 { return f.forged.Load() }

// Position is the event id up to which the rows have what the plane sent; 0 until a
// pull, or a state file of a follower that had pulled, has made them complete. It is what
// a node reports ([Reporter]).
func (f *Follower) Position() policy.EventID { return policy.EventID(f.position.Load()) }

// Run calls yield for every event until ctx ends, when it returns nil, or
// yield fails, or the plane gives a final refusal (errors.Is ErrUnknownNode, a
// *StatusError), or it keeps sending what does not verify, or an address is none
// (*AddressError). While events over SSE
// cannot be read at all, the state is pulled every AskEvery instead, and a change of
// the rows is yielded as a node_state_updated.
func (f *Follower) Run(ctx context.Context, yield func(Event) error) error {
	for e, err := range f.Events(ctx) {
		if err != nil {
			return err
		}
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

// Events yields every event, resuming after each cut, until ctx ends. An error
// is the last thing it yields.
func (f *Follower) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if f.own != nil {
			defer f.own.CloseIdleConnections()
		}
		if _, err := policy.ParseNodeID(string(f.id)); err != nil {
			f.setStreamError(err)
			yield(Event{}, fmt.Errorf("follow node %q: %w", f.id, err))
			return
		}
		if f.documents.server != "" || f.opt.NATS == "" && !f.askKeys {
			if err := checkAddress(f.documents.server, f.own == nil); err != nil {
				f.setStreamError(err)
				yield(Event{}, fmt.Errorf("follow node %s: %w", f.id, err))
				return
			}
		}
		wait := backoff.Backoff{Least: f.opt.MinWait, Most: f.opt.MaxWait}
		for ctx.Err() == nil {
			progress, err := f.connect(ctx, yield)
			if errors.Is(err, errStopped) || ctx.Err() != nil {
				return
			}
			if f.unreadable(err) {
				err = f.poll(ctx, err, yield)
				if errors.Is(err, errStopped) || ctx.Err() != nil {
					return
				}
			}
			f.setStreamError(err)
			if f.final(err) {
				yield(Event{}, fmt.Errorf("follow node %s: %w", f.id, err))
				return
			}
			if progress {
				wait.Reset()
			}
			pause := f.pause(&wait, err)
			f.opt.Log.Info("the event stream ended; resuming", "node", f.id, "after", f.Cursor(), "pause_seconds", pause.Round(time.Millisecond).Seconds(), "error", err)
			f.opt.Trouble(err, pause)
			_ = backoff.Sleep(ctx, pause)
		}
	}
}

// errStopped: the caller wants no more events.
var errStopped = errors.New("stopped")

// final reports whether err ends the following.
func (f *Follower) final(err error) bool {
	var status *StatusError
	var kept *StateFileError
	switch {
	case errors.As(err, new(*takeError)):
		return false
	case errors.As(err, &status):
		return status.final()
	case errors.As(err, &kept), errors.Is(err, errNoKeys), errors.As(err, new(*AddressError)):
		return true
	}
	var r *refusal
	if !errors.As(err, &r) || f.polling {
		return false
	}
	f.refused++
	return f.refused >= refusals
}

// pause is how long to wait before the next try: what the server asked for, or the
// backoff.
func (f *Follower) pause(wait *backoff.Backoff, err error) time.Duration {
	grown := wait.Next()
	var status *StatusError
	var garbled *UnreadableError
	if errors.As(err, &garbled) {
		return f.opt.AskEvery
	}
	if errors.As(err, &status) && status.RetryAfter > 0 {
		const longest = time.Minute // whatever the server asks for
		return backoff.AtLeast(min(status.RetryAfter, longest))
	}
	return grown
}

// connect follows one connection to its end. progress reports whether it brought
// anything new, or lasted long enough to count as a good one.
func (f *Follower) connect(ctx context.Context, yield func(Event, error) bool) (progress bool, err error) {
	if err := f.prepare(ctx); err != nil {
		return false, err
	}
	if f.opt.NATS != "" {
		return f.native(ctx, yield)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := func() { cancel(errSilent) }
	unanswered := time.AfterFunc(f.opt.Silence, silent) // the caller's client may wait for ever
	resp, err := f.open(ctx)
	unanswered.Stop()
	if err != nil {
		return false, cmp.Or(ended(ctx), err)
	}
	defer resp.Body.Close()
	if !f.polling {
		f.opened()
	}
	began, before := time.Now(), f.Cursor()
	body := newWatched(resp.Body, f.opt.Silence, silent)
	err = f.read(ctx, newFrames(body, f.largest), yield)
	return f.Cursor() != before || time.Since(began) > f.opt.MaxWait, cmp.Or(ended(ctx), err)
}

// ended is errSilent, if that ended a connection.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return nil
}

// prepare does what must precede the first stream: keys to verify with, and a
// place to begin.
func (f *Follower) prepare(ctx context.Context) error {
	if err := f.restore(); err != nil {
		return err
	}
	if f.askKeys && f.documents.server == "" {
		return errNoKeys
	}
	if f.askKeys && !f.haveKeys {
		if err := f.documents.keys(ctx, f.trust); err != nil {
			return err
		}
		f.haveKeys = true
	}
	if f.begun && !f.unresolved || f.documents.server == "" {
		return nil
	}
	s, err := f.puller(ctx)
	if err != nil {
		return err
	}
	if f.unresolved = false; f.begun {
		f.rows.resolve(s)
		return nil
	}
	f.take(s)
	f.begin(s.ID)
	return f.save()
}

// errNoKeys means that there is neither a server to ask for the keys nor Options.Trust.
var errNoKeys = errors.New("no keys to verify with: name a server that has them, or give them")

// begin has the next connection go on after an event.
func (f *Follower) begin(id policy.EventID) {
	f.moveTo(id)
	f.splice = newSplice(id)
	f.begun = true
}

func (f *Follower) take(s State) {
	f.rows.replace(s)
	f.rows.resolve(s)
	f.pulled = s.ID
	f.position.Store(uint64(s.ID))
}

// moveTo marks an event as handled. After a pull the next connection begins after the
// pull, although the present one may still bring earlier events.
func (f *Follower) moveTo(id policy.EventID) {
	f.seen = id
	f.cursor.Store(uint64(max(id, f.pulled)))
}

// from is the event id that the next connection resumes after. While events cannot be
// read, that is before the last one, so that it comes again and shows whether it can be
// read now.
func (f *Follower) from() policy.EventID {
	if f.polling {
		return f.seen
	}
	return f.Cursor()
}

func (f *Follower) open(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.documents.url("/events"), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", f.opt.accepted())
	req.Header.Set("Cache-Control", "no-cache")
	req.Header.Set("Last-Event-ID", f.from().String())
	resp, err := f.documents.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil, fmt.Errorf("the server answered with %.80q, not with an event stream", resp.Header.Get("Content-Type"))
	}
	return nil, newStatusError(resp)
}

// read handles the events of one connection.
func (f *Follower) read(ctx context.Context, stream *frames, yield func(Event, error) bool) error {
	for {
		fr, err := stream.next()
		if errors.Is(err, io.EOF) {
			return errors.New("the server ended the stream")
		}
		if errors.Is(err, errFrameTooLarge) {
			return &refusal{fr.id, fmt.Errorf("%w: %w", artifact.ErrMalformed, err)}
		}
		if err != nil {
			return err
		}
		e, err := f.verify(fr)
		if f.repeats(err, fr.data) {
			continue
		}
		if err != nil {
			return err
		}
		f.eventRead()
		if e.Type == artifact.TypeKeyRotated {
			if err := f.rotate(e.Notice); err != nil && !f.repeats(err, fr.data) {
				return f.refuse(fr.id, err)
			}
			continue
		}
		// A node_state_updated counts whatever its id: at the beginning of a stream it
		// may mean that the cursor is of another log, or is too old.
		if e.ID <= f.seen && e.Type != TypeStateUpdated {
			f.opt.Log.Warn("an event came twice, or out of order; skipping it", "node", f.id, "event_id", e.ID, "after", f.seen)
			continue
		}
		if err := f.handle(ctx, &e); err != nil {
			return err
		}
		f.moveTo(e.ID)
		if !yield(e, nil) {
			return errors.Join(errStopped, f.save())
		}
		if stream.drained() {
			if err := f.save(); err != nil {
				return err
			}
		}
	}
}

// verify checks a frame's notice.
func (f *Follower) verify(fr frame) (Event, error) {
	n, err := f.trust.Check(fr.data, f.opt.Now())
	if err != nil {
		return Event{}, f.refuse(fr.id, err)
	}
	e, err := decodeEvent(f.id, fr, n)
	if err != nil {
		return Event{}, &refusal{fr.id, err}
	}
	return e, nil
}

// handle brings the rows up to e.
func (f *Follower) handle(ctx context.Context, e *Event) error {
	switch e.Type {
	case TypeStateUpdated:
		return f.pull(ctx, e)
	case TypeArtifactUpdated:
		if f.artifacts {
			return f.artifactUpdated(ctx, e)
		}
		f.advance(e.ID)
	case TypePolicyUpdated:
		if f.artifacts {
			return nil
		}
		f.advance(e.ID)
		e.Covered = e.ID <= f.pulled
		e.Again = !e.Covered && f.rows.says(e.Policy) && e.ID != f.unhandled
		if !e.Covered && !f.rows.apply(*e) {
			f.opt.Log.Warn("a policy's event id fell; keeping the newer one", "node", f.id, "policy", e.Policy.PolicyID, "event_id", e.ID)
		}
		if !e.Covered && f.documents.server != "" && (e.Policy.Resolved || f.rows.mayConflict()) {
			return f.pullBlock(ctx, e)
		}
	}
	return nil
}

// pullBlock takes the block of the present state, and leaves the rows to the events.
func (f *Follower) pullBlock(ctx context.Context, e *Event) error {
	if e.ID <= f.blockAt {
		return nil
	}
	f.unhandled = e.ID
	s, err := f.puller(ctx)
	if err != nil {
		return err
	}
	f.rows.resolve(s)
	f.blockAt, e.Pulled, f.unhandled = s.ID, &s, 0
	return nil
}

// pull takes the present state because of an event.
func (f *Follower) pull(ctx context.Context, e *Event) error {
	s, err := f.puller(ctx)
	if err != nil {
		return err
	}
	f.take(s)
	e.Pulled = &s
	return nil
}

// advance notes that the rows have what was sent up to an event, if they are
// complete.
func (f *Follower) advance(id policy.EventID) {
	if f.position.Load() != 0 {
		f.position.Store(max(f.position.Load(), uint64(id)))
	}
}
