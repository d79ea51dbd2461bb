package api

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/edictdev/edict/api/resource"
)

// decisionFeed follows the decision log once for all who follow it here. Without anybody
// it follows nothing.
type decisionFeed struct {
	log    DecisionLog
	window int // bytes of decisions that are kept for those who are behind; 0: decisionsWindow
	mu     sync.Mutex
	now    *following // nil: nobody is there
}

// decisionsWindow bounds what is kept of the log. Who is further behind reads it there.
const decisionsWindow = 4 << 20

// following is the log as far as it came, its newest decisions in memory. Of the mu of its
// feed but for what never changes.
type following struct {
	feed *decisionFeed
	stop context.CancelFunc
	done chan struct{} // closed when nothing of it runs

	readers int
	kept    []*keptDecision // those above floor, oldest first
	bytes   int
	floor   uint64
	at      uint64        // all up to here came
	more    chan struct{} // closed when at, or err, is another
	err     error         // it has ended
}

type keptDecision struct {
	resource.Decision
	bytes int
}

// join follows the log with those who do already, or from behind a sequence on.
func (f *decisionFeed) join(after uint64) *following {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		ctx, stop := context.WithCancel(context.Background())
		f.now = &following{feed: f, stop: stop, done: make(chan struct{}), floor: after, at: after, more: make(chan struct{})}
		go f.now.run(ctx)
	}
	f.now.readers++
	return f.now
}

// leave is called once by each who joined. Nothing runs any more when the last returns.
func (x *following) leave() {
	x.feed.mu.Lock()
	x.readers--
	last := x.readers == 0
	if last && x.feed.now == x {
		x.feed.now = nil
	}
	x.feed.mu.Unlock()
	if last {
		x.stop()
		<-x.done
	}
}

var errFeedEnded = errors.New("the decision log is followed no longer")

func (x *following) run(ctx context.Context) {
	defer close(x.done)
	ended := errFeedEnded
	for batch, err := range x.feed.log.Follow(ctx, x.at+1) {
		if err != nil {
			ended = err
			break
		}
		var found []*keptDecision
		for _, m := range batch {
			if d, ok := decisionOf(m); ok {
				found = append(found, &keptDecision{d, len(m.Body)})
			}
		}
		x.take(found, batch[len(batch)-1].Seq)
	}
	x.feed.mu.Lock()
	defer x.feed.mu.Unlock()
	x.err = ended
	if x.feed.now == x {
		x.feed.now = nil // who comes next begins again
	}
	close(x.more)
}

// take keeps what came, up to a sequence, and lets go of the oldest.
func (x *following) take(found []*keptDecision, at uint64) {
	x.feed.mu.Lock()
	defer x.feed.mu.Unlock()
	for _, d := range found {
		x.bytes += d.bytes
	}
	x.kept, x.at = append(x.kept, found...), at
	window := decisionsWindow
	if x.feed.window > 0 {
		window = x.feed.window
	}
	gone := 0
	for ; x.bytes > window; gone++ {
		x.bytes -= x.kept[gone].bytes
		x.floor = x.kept[gone].Seq
	}
	x.kept = slices.Delete(x.kept, 0, gone)
	close(x.more)
	x.more = make(chan struct{})
}

// after are the decisions behind a sequence, as far as they came. floor is not 0 when some
// of them, up to there, are kept no more. more is closed when there is news.
func (x *following) after(seq uint64) (found []*keptDecision, at, floor uint64, more <-chan struct{}, err error) {
	x.feed.mu.Lock()
	defer x.feed.mu.Unlock()
	if x.err != nil || seq < x.floor {
		return nil, 0, x.floor, x.more, x.err
	}
	i, _ := slices.BinarySearchFunc(x.kept, seq+1, func(d *keptDecision, seq uint64) int {
		switch {
		case d.Seq < seq:
			return -1
		case d.Seq > seq:
			return 1
		}
		return 0
	})
	return slices.Clone(x.kept[i:]), max(seq, x.at), 0, x.more, nil
}
