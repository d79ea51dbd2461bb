package relay

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edictdev/edict/internal/streams"
)

// fakeBucket keeps leases as a JetStream bucket does: revisions rise, keys
// expire, and a marker says so, perhaps late.
type fakeBucket struct {
	mu      sync.Mutex
	last    uint64
	history []streams.Entry
	keys    map[string]fakeKey
	changed chan struct{}
	late    time.Duration // of markers
}

type fakeKey struct {
	streams.Entry
	expires time.Time
}

func newFakeBucket() *fakeBucket {
	return &fakeBucket{keys: map[string]fakeKey{}, changed: make(chan struct{})}
}

func (b *fakeBucket) addLocked(e streams.Entry) uint64 {
	b.last++
	e.Revision, e.Time = b.last, time.Now()
	b.history = append(b.history, e)
	close(b.changed)
	b.changed = make(chan struct{})
	return b.last
}

func (b *fakeBucket) put(key string, value []byte, expect uint64, ttl time.Duration) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys[key].Revision != expect {
		return 0, streams.ErrWrongSequence
	}
	e := streams.Entry{Key: key, Value: value}
	e.Revision = b.addLocked(e)
	b.keys[key] = fakeKey{e, time.Now().Add(ttl)}
	time.AfterFunc(ttl+b.late, func() { b.expire(key) })
	return e.Revision, nil
}

func (b *fakeBucket) expire(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k, ok := b.keys[key]; ok && !time.Now().Before(k.expires.Add(b.late)) {
		delete(b.keys, key)
		b.addLocked(streams.Entry{Key: key, Gone: true})
	}
}

// fakeLeases is one process's way to the bucket.
type fakeLeases struct {
	b     *fakeBucket
	mu    sync.Mutex
	cut   chan struct{} // closed while there is a way
	deaf  bool          // the watch hears nothing
	drip  bool          // the watch hears one thing at a time
	slow  time.Duration // of answers to what was stored
	loses bool          // those answers
}

func (l *fakeLeases) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (b *fakeBucket) client() *fakeLeases {
	l := &fakeLeases{b: b, cut: make(chan struct{})}
	close(l.cut)
	return l
}

// block cuts the way until the function it returns is called; what is asked
// meanwhile waits.
func (l *fakeLeases) block() (unblock func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = make(chan struct{})
	return sync.OnceFunc(func() { close(l.cut) })
}

func (l *fakeLeases) way(ctx context.Context) error {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	select {
	case <-cut:
		return nil
	case <-ctx.Done():
		return streams.ErrUnknown
	}
}

func (l *fakeLeases) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	if err := l.way(ctx); err != nil {
		return nil, 0, err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	k, ok := l.b.keys[key]
	if !ok {
		return nil, 0, streams.ErrNotFound
	}
	return k.Value, k.Revision, nil
}

func (l *fakeLeases) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	return l.Update(ctx, key, value, 0, ttl)
}

func (l *fakeLeases) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if err := l.way(ctx); err != nil {
		return 0, err
	}
	revision, err := l.b.put(key, value, revision, ttl)
	l.mu.Lock()
	slow, loses := l.slow, l.loses
	l.mu.Unlock()
	time.Sleep(slow)
	if loses {
		return 0, streams.ErrUnknown
	}
	return revision, err
}

func (l *fakeLeases) Delete(ctx context.Context, key string, revision uint64) error {
	if err := l.way(ctx); err != nil {
		return err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.b.keys[key].Revision != revision {
		return streams.ErrWrongSequence
	}
	delete(l.b.keys, key)
	l.b.addLocked(streams.Entry{Key: key, Gone: true})
	return nil
}

func (l *fakeLeases) List(ctx context.Context) (all []streams.Entry, upTo uint64, err error) {
	if err := l.way(ctx); err != nil {
		return nil, 0, err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	for _, k := range l.b.keys {
		all = append(all, k.Entry)
	}
	slices.SortFunc(all, func(a, b streams.Entry) int { return strings.Compare(a.Key, b.Key) })
	return all, l.b.last, nil
}

func (l *fakeLeases) Watch(ctx context.Context, after uint64) iter.Seq2[[]streams.Entry, error] {
	return func(yield func([]streams.Entry, error) bool) {
		for ctx.Err() == nil {
			l.b.mu.Lock()
			news, changed := slices.Clone(l.b.history[after:]), l.b.changed
			l.b.mu.Unlock()
			news = lastOnes(news)
			if len(news) == 0 {
				select {
				case <-changed:
				case <-ctx.Done():
				}
				continue
			}
			if l.way(ctx) != nil {
				return
			}
			l.mu.Lock()
			deaf, drip := l.deaf, l.drip
			l.mu.Unlock()
			if drip {
				news = news[:1]
				time.Sleep(10 * time.Millisecond)
			}
			if deaf {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			after = news[len(news)-1].Revision
			if !yield(news, nil) {
				return
			}
		}
	}
}

// lastOnes is what a bucket keeps: the last entry of each key.
func lastOnes(all []streams.Entry) (kept []streams.Entry) {
	for i, e := range all {
		if !slices.ContainsFunc(all[i+1:], func(later streams.Entry) bool { return later.Key == e.Key }) {
			kept = append(kept, e)
		}
	}
	return kept
}
