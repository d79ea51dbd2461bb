package faults

import (
	"context"
	"net/http"
	"time"

	"github.com/edictdev/edict/internal/test/watch"
	"github.com/edictdev/edict/policy"
)

// follower is a client of one node whose stream can be cut.
type follower struct {
	watch.Follower
	partial bool               // what it holds from before is not recorded
	cancel  context.CancelFunc // nil: cut
	done    chan struct{}
}

func (p *plane) follower(node string) *follower {
	f := &follower{Follower: watch.Follower{Node: node, Keys: p.keys, Client: http.DefaultClient, NATS: p.nc}}
	p.followers = append(p.followers, f)
	return f
}

// from is a follower that resumes from an id, and from nothing else.
func (p *plane) from(node string, after policy.EventID) *follower {
	f := p.follower(node)
	f.partial = true
	f.Begin(after)
	return f
}

// open follows the node's stream on w until cut. Through a proxy, base is its
// address.
func (f *follower) open(ctx context.Context, w *worker, base string) {
	ctx, cancel := context.WithCancel(ctx)
	f.cancel, f.done = cancel, make(chan struct{})
	f.Past = func() uint64 { return w.store.PastStatus().From }
	go func() {
		defer close(f.done)
		f.Follow(ctx, func() string { return base })
	}()
}

// cut ends the stream.
func (f *follower) cut() {
	if f.cancel != nil {
		f.cancel()
		<-f.done
		f.cancel = nil
	}
}

// ask is the way of a native client.
func (f *follower) ask(w *worker) {
	_ = f.Ask(w.http.URL, 2*time.Second) // asked again at the next opportunity
}
