package watch

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/policy"
)

// Follower is a client of one node that records what it meets, over SSE or NATS.
// It resumes after what it has met, and pulls when it is told to.
type Follower struct {
	Node   string
	Keys   Keys
	Client *http.Client
	Accept string        // over SSE; empty: what agents of the field send
	NATS   *nats.Conn    // for Ask and Listen
	Past   func() uint64 // how far back it knows what was missed; nil: not known

	mu       sync.Mutex
	sessions []Session
	cursor   policy.EventID // to resume after
	told     policy.EventID // the highest acted upon
	frames   int
	owes     bool // it was told to pull and could not yet
}

// At is the highest id acted upon, or that it resumes after, and how many frames
// were met.
func (f *Follower) At() (id policy.EventID, frames int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.cursor, f.told), f.frames
}

// Record is what was met so far.
func (f *Follower) Record() Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(f.sessions)
	for i := range list {
		list[i].Frames = slices.Clone(list[i].Frames)
	}
	return Record{Node: f.Node, Sessions: list}
}

// Begin has a follower that has met nothing begin after an id.
func (f *Follower) Begin(after policy.EventID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cursor, f.told = after, after
}

// begin records that a session begins.
func (f *Follower) begin(over string) (after policy.EventID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Session{Over: over, After: f.cursor}
	if f.Past != nil {
		s.From = f.Past()
	}
	f.sessions = append(f.sessions, s)
	return f.cursor
}

// take records a frame of the last session.
func (f *Follower) take(m Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.sessions[len(f.sessions)-1]
	s.Frames = append(s.Frames, m)
	f.owes = f.owes || m.Pull
	f.frames++
}

// reach notes that everything up to id was met.
func (f *Follower) reach(id policy.EventID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cursor, f.told = id, id
}

// broke records a message at fault. Other errors are cuts.
func (f *Follower) broke(err error) {
	var frame *FrameError
	if errors.As(err, &frame) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.sessions[len(f.sessions)-1].Broken = err.Error()
	}
}

// pull takes the state anew, if that is owed, and goes on after it.
func (f *Follower) pull(base string) error {
	f.mu.Lock()
	owes := f.owes
	f.mu.Unlock()
	if !owes {
		return nil
	}
	s, err := Pull(f.Client, base, f.Node)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions = append(f.sessions, s)
	f.cursor, f.told, f.owes = s.After, s.After, false
	return nil
}

// retry is the pause of a client that was cut off.
const retry = 20 * time.Millisecond

// Follow follows the node's stream until ctx ends. base says where it is now.
func (f *Follower) Follow(ctx context.Context, base func() string) {
	for ctx.Err() == nil {
		at := base()
		if f.pull(at) == nil && f.stream(ctx, at) {
			continue
		}
		_ = backoff.Sleep(ctx, retry)
	}
}

// stream is one connection; pull: it ended with the message to pull.
func (f *Follower) stream(ctx context.Context, base string) (pull bool) {
	accept := cmp.Or(f.Accept, "text/event-stream")
	err := StreamIn(ctx, accept, f.Client, base+"/v1/nodes/"+f.Node+"/events", f.begin("SSE").String(), f.Keys, func(m Frame) bool {
		f.take(m)
		f.reach(m.ID)
		pull = m.Pull
		return !m.Pull
	})
	f.broke(err)
	return pull
}

// Ask is the native client's way: it asks for what it missed. base is where it
// pulls when it is told to.
func (f *Follower) Ask(base string, patience time.Duration) error {
	if err := f.pull(base); err != nil {
		return err
	}
	a, err := Replay(f.NATS, f.Node, f.begin("answer"), patience, f.Keys)
	for _, m := range a.Frames {
		f.take(m)
	}
	f.broke(err)
	if err != nil {
		return err
	}
	f.mu.Lock()
	s := &f.sessions[len(f.sessions)-1]
	s.UpTo, s.Pull = a.UpTo, a.Pull
	f.cursor, f.told, f.owes = a.UpTo, max(f.told, a.UpTo), f.owes || a.Pull
	if a.Pull {
		f.told = a.UpTo
	}
	f.mu.Unlock()
	return f.pull(base)
}

// Listen is the whole of the native client until ctx ends: it hears what is live,
// and asks at first, at every hole and so often. What is live is recorded as it
// comes, doubles too; it resumes after what answers said.
func (f *Follower) Listen(ctx context.Context, base func() string, every time.Duration) error {
	sub, err := f.NATS.SubscribeSync("edict.node." + f.Node + ".>")
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	for ctx.Err() == nil {
		if f.Ask(base(), time.Second) != nil {
			_ = backoff.Sleep(ctx, retry)
			continue
		}
		f.begin("live")
		until, cancel := context.WithTimeout(ctx, every)
		for f.live(until, sub) {
		}
		cancel()
	}
	return nil
}

// live takes one message; false: ask.
func (f *Follower) live(ctx context.Context, sub *nats.Subscription) bool {
	m, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return false
	}
	frame, err := ReadMessage(m, f.Keys)
	if errors.Is(err, ErrUnknownKey) {
		return false // if it is the plane's, an answer names the key, and brings the message again
	}
	if err != nil {
		f.broke(err)
		return false
	}
	f.take(frame)
	f.mu.Lock()
	defer f.mu.Unlock()
	hole := frame.Prev > f.told
	if !hole {
		f.told = max(f.told, frame.ID)
	}
	return !hole && !f.owes
}
