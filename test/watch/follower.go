package watch

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/test/check"
)

// Follower is a client of one node that records what it meets, over SSE or by
// asking over NATS. It resumes after what it has met, and pulls when it is told
// to.
type Follower struct {
	Node    string
	Keys    Keys
	Client  *http.Client
	NATS    *nats.Conn    // for Ask
	Applied func() uint64 // cursor of the process that serves; nil: not known

	mu       sync.Mutex
	sessions []check.Session
	cursor   uint64
	frames   int
	owes     bool // it was told to pull and could not yet
}

// At is the last sequence met, and how many frames were.
func (f *Follower) At() (seq uint64, frames int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cursor, f.frames
}

// Watcher is what was recorded so far.
func (f *Follower) Watcher(settled bool) *check.Watcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &check.Watcher{Node: f.Node, Sessions: slices.Clone(f.sessions), Settled: settled}
}

// begin records that a session begins.
func (f *Follower) begin(over string) (after uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions = append(f.sessions, check.Session{Over: over, After: f.cursor})
	return f.cursor
}

func (f *Follower) take(m check.Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.sessions[len(f.sessions)-1]
	s.Frames = append(s.Frames, m)
	f.cursor, f.owes = m.Seq, f.owes || m.Pull
	f.frames++
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
	f.cursor, f.owes = s.After, false
	return nil
}

// retry is the pause of a client that was cut off.
const retry = 5 * time.Millisecond

// Follow follows the node's stream until ctx ends. base says where it is now.
func (f *Follower) Follow(ctx context.Context, base func() string) {
	for ctx.Err() == nil {
		at := base()
		if f.pull(at) == nil && f.stream(ctx, at) {
			continue
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
	}
}

// stream is one connection; pull: it ended with the word to pull.
func (f *Follower) stream(ctx context.Context, base string) (pull bool) {
	last := strconv.FormatUint(f.begin("SSE"), 10)
	err := Stream(ctx, f.Client, base+"/v1/nodes/"+f.Node+"/events", last, f.Keys, func(m check.Frame) bool {
		if f.Applied != nil {
			m.Applied = f.Applied()
		}
		f.take(m)
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
	a, err := Replay(f.NATS, f.Node, f.begin("NATS"), patience, f.Keys)
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
	f.cursor, f.owes = max(f.cursor, a.UpTo), a.Pull
	f.mu.Unlock()
	return f.pull(base)
}
