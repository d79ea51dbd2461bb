package faults

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/edictdev/edict/test/check"
	"github.com/edictdev/edict/test/watch"
)

// follower is a client of one node that records what it meets.
type follower struct {
	p    *plane
	over string

	mu     sync.Mutex
	w      *check.Watcher
	cursor uint64

	cancel context.CancelFunc // of the stream that is open
	done   chan struct{}
}

func (p *plane) follower(over, node string) *follower {
	f := &follower{p: p, over: over, w: &check.Watcher{Node: node}}
	p.followers = append(p.followers, f)
	p.mu.Lock()
	p.run.Watchers = append(p.run.Watchers, f.w)
	p.mu.Unlock()
	return f
}

// at is the last sequence met.
func (f *follower) at() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cursor
}

// begin records that a session begins and returns where it is kept.
func (f *follower) begin() *check.Session {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.w.Sessions = append(f.w.Sessions, check.Session{Over: f.over, After: f.cursor})
	return &f.w.Sessions[len(f.w.Sessions)-1]
}

func (f *follower) take(s *check.Session, m check.Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Frames = append(s.Frames, m)
	f.cursor = m.Seq
}

func (f *follower) broke(s *check.Session, err error) {
	var frame *watch.FrameError
	if errors.As(err, &frame) {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.Broken = err.Error()
	}
}

// pull takes the state anew and goes on after it.
func (f *follower) pull(base string) bool {
	s, err := watch.Pull(http.DefaultClient, base, f.w.Node)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.w.Sessions = append(f.w.Sessions, s)
	f.cursor = s.After
	return true
}

// open follows the node's stream on w until cut: it resumes after what it has
// met, and pulls when it is told to. Through a proxy, base is its address.
func (f *follower) open(w *worker, base string) {
	ctx, cancel := context.WithCancel(f.p.t.Context())
	f.cancel, f.done = cancel, make(chan struct{})
	go func() {
		defer close(f.done)
		for pull := false; ctx.Err() == nil; {
			if pull && !f.pull(base) {
				pause(ctx)
				continue
			}
			s := f.begin()
			pull = false
			err := watch.Stream(ctx, http.DefaultClient, base+"/v1/nodes/"+f.w.Node+"/events", strconv.FormatUint(s.After, 10), f.p.keys, func(m check.Frame) bool {
				m.Applied = w.store.Applied()
				f.take(s, m)
				pull = m.Pull
				return !m.Pull
			})
			f.broke(s, err)
			if !pull {
				pause(ctx)
			}
		}
	}()
}

func pause(ctx context.Context) {
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
	}
}

// cut ends the stream.
func (f *follower) cut() {
	if f.cancel != nil {
		f.cancel()
		<-f.done
		f.cancel = nil
	}
}

// ask is the native client's way: it asks for what it missed.
func (f *follower) ask(w *worker) {
	s := f.begin()
	a, err := watch.Replay(f.p.nc, f.w.Node, s.After, 2*time.Second, f.p.keys)
	for _, m := range a.Frames {
		f.take(s, m)
	}
	f.broke(s, err)
	if err != nil {
		return
	}
	f.mu.Lock()
	s.UpTo, s.Pull = a.UpTo, a.Pull
	f.cursor = max(f.cursor, a.UpTo)
	f.mu.Unlock()
	if a.Pull {
		f.pull(w.http.URL)
	}
}
