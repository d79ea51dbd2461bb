package convergence

import (
	"context"
	"sync"
	"time"
)

// Sample is what a worker knew of the fleet at a moment.
type Sample struct {
	Time          time.Time
	Head, Applied uint64 // the log's last sequence, and that of the fold
	Counts        Counts
	Streams       int // event streams open on this worker
}

// same reports whether two samples differ in nothing but their time.
func (s Sample) same(o Sample) bool {
	o.Time = s.Time
	return s == o
}

// What a Monitor keeps: an hour of samples.
const (
	SampleEvery = 10 * time.Second
	maxSamples  = int(time.Hour / SampleEvery)
	// soonest is how long after a sample the next one is taken, while somebody follows.
	soonest = time.Second
)

// Monitor takes samples of the fleet: one each SampleEvery, and while somebody follows
// them one a second, however many do. Run runs it.
type Monitor struct {
	tracker *Tracker
	streams func() int

	mu      sync.Mutex
	samples []Sample // at most maxSamples, oldest first
	last    Sample
	number  uint64        // of last; 0: none was taken
	next    chan struct{} // closed when last is another
	watches int
}

// NewMonitor makes one of a tracker's fleet. streams says how many event streams are open.
func NewMonitor(t *Tracker, streams func() int) *Monitor {
	return &Monitor{tracker: t, streams: streams, next: make(chan struct{})}
}

// Run takes samples until ctx ends. One that cannot be taken is left out.
func (m *Monitor) Run(ctx context.Context) error {
	tick := time.NewTicker(soonest)
	defer tick.Stop()
	for {
		if m.due(time.Now()) {
			_ = m.Take(ctx, time.Now()) // the reports are not read yet
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// due reports whether to take a sample: somebody follows, or the next one is to be kept.
func (m *Monitor) due(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watches > 0 || m.keeps(now)
}

// keeps reports whether a sample of a moment is to be kept. Ticks come a little early or late.
func (m *Monitor) keeps(now time.Time) bool {
	n := len(m.samples)
	return n == 0 || now.Sub(m.samples[n-1].Time) > SampleEvery-soonest/2
}

// Latest is the last sample; where none was taken yet, one of now.
func (m *Monitor) Latest(ctx context.Context) (Sample, error) {
	if s, taken := m.newest(); taken {
		return s, nil
	}
	err := m.Take(ctx, time.Now())
	s, _ := m.newest()
	return s, err
}

func (m *Monitor) newest() (s Sample, taken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.number > 0
}

// Take takes a sample of a moment, which is now. The error is *NotReadyError, or ctx's.
func (m *Monitor) Take(ctx context.Context, now time.Time) error {
	counts, err := m.tracker.Counts(ctx)
	if err != nil {
		return err
	}
	s := Sample{Time: now, Applied: m.tracker.opt.Model.Applied(), Counts: counts, Streams: m.streams()}
	s.Head = s.Applied // unless the log can say more
	if log, err := m.tracker.opt.Events.State(ctx); err == nil {
		s.Head = max(s.Applied, log.Last)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keeps(now) {
		if len(m.samples) == maxSamples {
			m.samples = append(m.samples[:0], m.samples[1:]...)
		}
		m.samples = append(m.samples, s)
	}
	if m.number == 0 || !s.same(m.last) {
		m.last, m.number = s, m.number+1
		close(m.next)
		m.next = make(chan struct{})
	}
	return nil
}

// History is the samples of the last hour, oldest first, SampleEvery apart.
func (m *Monitor) History() []Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Sample(nil), m.samples...)
}

// Watch is somebody who follows a Monitor. While there is one, samples are taken more often.
type Watch struct {
	m    *Monitor
	seen uint64
}

// Watch begins to follow. The caller closes the Watch.
func (m *Monitor) Watch() *Watch {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches++
	return &Watch{m: m}
}

// Next is the last sample, once that differs in more than its time from the one that Next
// returned before. Who is slow misses some, and never the last one. The error is ctx's.
func (w *Watch) Next(ctx context.Context) (Sample, error) {
	for {
		w.m.mu.Lock()
		last, number, next := w.m.last, w.m.number, w.m.next
		w.m.mu.Unlock()
		if number > w.seen {
			w.seen = number
			return last, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return Sample{}, ctx.Err()
		}
	}
}

// Close ends it. It is called once.
func (w *Watch) Close() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.m.watches--
}
