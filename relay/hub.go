package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// hub is the one reader of the node stream in this process. It feeds every
// live stream, and releases a message only when the own read model contains
// what the message tells, so that the pull it causes finds it (design
// section 6).
type hub struct {
	stream     Stream
	store      Store
	board      *board
	log        *slog.Logger
	logID      string
	partitions int
	patience   time.Duration // how long the gate may be shut before the process is not ready
	scans      *semaphore.Weighted
	drops      *dropper

	mu       sync.Mutex
	ready    bool
	waitsFor uint64 // before ready: the log sequence the fold must reach
	released uint64 // every message up to it went to who listens
	shut     time.Time
	subs     map[policy.NodeID][]*subscriber
	days     []dayMark // ascending by seq
	ring     *ring
	tables   map[int]placedMark // the last table mark of each partition
	passed   map[int]uint64     // and the last that was released here
	began    uint64             // where the hub starts: marks above it pass
	ended    bool
}

// dayMark is one edict.mark.day.<day>: what was written after it is younger
// than it.
type dayMark struct {
	seq uint64
	at  time.Time
}

// held bounds what was read from the stream and waits at the gate, in bytes.
const held = 32 << 20

// scansAtOnce bounds the temporary consumers of resumes over many subjects.
const scansAtOnce = 8

func newHub(r *Relay, stream Stream) *hub {
	return &hub{
		stream: stream, store: r.store, board: r.board, log: r.opt.Log,
		logID: r.logID, partitions: r.opt.Partitions, patience: r.opt.Patience,
		scans: semaphore.NewWeighted(scansAtOnce),
		drops: newDropper(r.store, r.opt.Log),
		subs:  map[policy.NodeID][]*subscriber{}, tables: map[int]placedMark{}, passed: map[int]uint64{},
		ring: newRing(r.opt.Ring, math.MaxUint64), // covers nothing before the start
	}
}

// Run serves until ctx ends or the stream is found remade
// (*streams.DamagedError). Live streams end with it: their clients come back
// and resume.
func (h *hub) Run(ctx context.Context) error {
	defer h.end()
	from, err := h.begin(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan []streams.Message, 64)
	room := semaphore.NewWeighted(held)
	g.Go(func() error { return h.drops.Run(ctx) })
	g.Go(func() error { return h.read(ctx, from, batches, room) })
	g.Go(func() error { return h.release(ctx, batches, room) })
	return g.Wait()
}

// begin starts, again after errors that pass.
func (h *hub) begin(ctx context.Context) (from uint64, err error) {
	for pause := backoffLeast; ; pause = min(2*pause, backoffMost) {
		from, err = h.start(ctx)
		var damaged *streams.DamagedError
		if err == nil || ctx.Err() != nil || errors.As(err, &damaged) {
			return from, err
		}
		h.log.Warn("the hub cannot start yet; trying again", "error", err)
		sleep(ctx, pause)
	}
}

// start finds H, the place where the hub begins, and waits until the own
// cursor has reached after.seq of every fence as read after H: what was told
// up to H will never pass the gate, so /state must hold it.
func (h *hub) start(ctx context.Context) (from uint64, err error) {
	state, err := h.stream.State(ctx)
	if err != nil {
		return 0, fmt.Errorf("start of the hub: %w", err)
	}
	msgs, err := lastUpTo(ctx, h.stream, 0, state.Last, allFences, allDays, allSyncs)
	if err != nil {
		return 0, fmt.Errorf("start of the hub: %w", err)
	}
	h.mu.Lock()
	h.days = nil
	h.mu.Unlock()
	for _, m := range msgs {
		h.notice(m)
		h.noticeTable(m)
	}
	var seq uint64
	for id := range h.partitions {
		seq = max(seq, h.board.fence(id).After.Seq)
	}
	h.mu.Lock()
	h.waitsFor = seq
	h.mu.Unlock()
	if err := h.store.Wait(ctx, seq); err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released, h.began, h.ready = state.Last, state.Last, true
	h.ring.floor = state.Last
	h.log.Info("nodes are served", "node_seq", state.Last, "applied", h.store.Applied())
	return state.Last + 1, nil
}

// lastUpTo is stream.Last asked until the answer is complete up to a sequence:
// replicas lag, but not for long.
func lastUpTo(ctx context.Context, stream Stream, from, upTo uint64, filters ...string) ([]streams.Message, error) {
	for pause := backoffLeast; ; pause = min(2*pause, 10*backoffLeast) {
		msgs, got, err := stream.Last(ctx, from, filters...)
		if err != nil || got >= upTo {
			return msgs, err
		}
		if sleep(ctx, pause); ctx.Err() != nil {
			return nil, fmt.Errorf("no replica of the node stream reached %d: %w", upTo, ctx.Err())
		}
	}
}

// read follows the stream. Fences are seen here, outside the gate.
func (h *hub) read(ctx context.Context, from uint64, batches chan<- []streams.Message, room *semaphore.Weighted) error {
	for msgs, err := range h.stream.Follow(ctx, from) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("follow the node stream: %w", err)
		}
		for _, m := range msgs {
			h.notice(m)
		}
		if room.Acquire(ctx, weight(msgs)) != nil {
			return nil
		}
		select {
		case batches <- msgs:
		case <-ctx.Done():
			return nil
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("follow the node stream: it ended")
}

func weight(msgs []streams.Message) int64 {
	n := int64(0)
	for _, m := range msgs {
		n += int64(len(m.Body)) + 512
	}
	return min(n, held)
}

// notice reads what is not for nodes: fences and day marks.
func (h *hub) notice(m streams.Message) {
	if id, ok := fencePartition(m.Subject, h.partitions); ok {
		f, err := ParseFence(m.Body)
		if err != nil {
			h.log.Warn("a fence cannot be read", "partition", id, "seq", m.Seq, "error", err)
			return
		}
		h.board.see(id, placed{f, m.Seq})
		if f.Log == h.logID {
			h.drops.allow(id, f)
		}
		return
	}
	if strings.HasPrefix(m.Subject, dayPrefix) {
		h.mu.Lock()
		h.days = slices.DeleteFunc(h.days, func(d dayMark) bool { return m.Time.Sub(d.at) > dayMarkTTL })
		h.days = append(h.days, dayMark{m.Seq, m.Time})
		h.mu.Unlock()
	}
}

// noticeTable reads a table mark that stands where the hub starts.
func (h *hub) noticeTable(m streams.Message) {
	p, ok := numbered(m.Subject, tablePrefix, h.partitions)
	if !ok {
		return
	}
	mark, err := readTableMark(m)
	if err != nil {
		h.log.Warn("a table mark cannot be read", "partition", p, "seq", m.Seq, "error", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tables[p] = mark
}

// release passes messages on, in stream order, each once the gate is open
// for it.
func (h *hub) release(ctx context.Context, batches <-chan []streams.Message, room *semaphore.Weighted) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case msgs := <-batches:
			for _, m := range msgs {
				if h.gate(ctx, needs(m)); ctx.Err() != nil {
					return nil
				}
				h.dispatch(m)
			}
			room.Release(weight(msgs))
		}
	}
}

// needs is the log sequence the own cursor must have reached before m may be
// seen; 0: any. Announcements and sync marks carry it, fences do not.
func needs(m streams.Message) uint64 {
	if v := m.Header[streams.HeaderEdictLogSeq]; len(v) > 0 {
		if seq, err := strconv.ParseUint(v[0], 10, 64); err == nil {
			return seq
		}
	}
	return 0
}

// gate waits until the own cursor has reached seq.
func (h *hub) gate(ctx context.Context, seq uint64) {
	if h.store.Applied() >= seq || fault.Always(fault.EarlyVisibility) {
		return
	}
	h.setShut(time.Now())
	defer h.setShut(time.Time{})
	long := time.AfterFunc(h.patience, func() {
		h.log.Warn("gate shut: the read model is behind the node stream, and announcements wait", "applied", h.store.Applied(), "seq", seq)
	})
	_ = h.store.Wait(ctx, seq) // fails only when ctx ends
	if !long.Stop() && ctx.Err() == nil {
		h.log.Info("gate open: announcements go on", "applied", h.store.Applied(), "seq", seq)
	}
}

func (h *hub) setShut(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shut = at
}

// dispatch hands m to the ring and to the live streams it concerns.
func (h *hub) dispatch(m streams.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = m.Seq
	if node, _, ok := splitNodeSubject(m.Subject); ok {
		if fault.Sometimes(fault.Drop) {
			return
		}
		e := &news{Message: m}
		h.ring.add(node, e)
		for _, s := range h.subs[node] {
			s.push(e)
		}
		if fault.Sometimes(fault.CrossNode) {
			for _, subs := range h.subs {
				for _, s := range subs {
					s.push(e)
				}
			}
		}
		return
	}
	if p, ok := numbered(m.Subject, tablePrefix, h.partitions); ok {
		h.seeTable(p, m)
	}
	if p, ok := numbered(m.Subject, syncPrefix, h.partitions); ok {
		h.ring.mark(p, m.Seq)
		// A sync told differences only: a node may have pulled a row that the
		// stream never told and that is gone since.
		pull := resync(m.Seq)
		for node, subs := range h.subs {
			if node.Partition(h.partitions) != p {
				continue
			}
			for _, s := range subs {
				s.push(pull)
			}
		}
	}
}

// subscribe registers a live stream: everything above at will be pushed to it.
func (h *hub) subscribe(node policy.NodeID) (s *subscriber, at uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.readyLocked(); err != nil {
		return nil, 0, err
	}
	s = newSubscriber(node)
	s.floor = h.released
	h.subs[node] = append(h.subs[node], s)
	return s, h.released, nil
}

func (h *hub) unsubscribe(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	subs := h.subs[s.node]
	for i := range subs {
		if subs[i] == s {
			subs[i] = subs[len(subs)-1]
			subs[len(subs)-1] = nil
			subs = subs[:len(subs)-1]
			break
		}
	}
	if len(subs) == 0 {
		delete(h.subs, s.node)
	} else {
		h.subs[s.node] = subs
	}
}

// position is the released H.
func (h *hub) position() (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.released, h.readyLocked()
}

func (h *hub) readyLocked() error {
	switch {
	case h.ended:
		return &NotReadyError{"the node stream is being opened"}
	case !h.ready && h.waitsFor > 0:
		return &NotReadyError{fmt.Sprintf("the read model is at %d and the node stream tells of %d", h.store.Applied(), h.waitsFor)}
	case !h.ready:
		return &NotReadyError{"the hub is starting"}
	case !h.shut.IsZero() && time.Since(h.shut) >= h.patience:
		return &NotReadyError{fmt.Sprintf("the read model, at %d, has held announcements back for %s",
			h.store.Applied(), time.Since(h.shut).Round(time.Second))}
	}
	return nil
}

// end makes every live stream end.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for _, subs := range h.subs {
		for _, s := range subs {
			s.end()
		}
	}
}

// NotReadyError: this process cannot serve nodes now; answer 503 with
// Retry-After.
type NotReadyError struct{ Detail string }

func (e *NotReadyError) Error() string { return "not ready: " + e.Detail }
