package relay

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/edictdev/edict/streams"
)

// fate is what a fake server does with one batch.
type fate int

const (
	deliver fate = iota
	loseAck      // stored; nobody says so
	loseAll      // not stored; nobody says so
	delay        // not stored yet, nobody says so; land stores it
	busy
	tooLarge
)

// fakeServer is a node stream in memory that keeps promises 2 and 5 by
// watching: a version that falls, an announcement told twice, two bodies of
// one version are noted in broken.
type fakeServer struct {
	mu       sync.Mutex
	first    uint64
	last     uint64
	life     int // incarnation
	msgs     map[string]streams.Message
	expires  map[string]time.Time
	known    map[string]bool // message ids
	changed  chan struct{}
	fate     func(msgs []streams.Outgoing) fate
	late     [][]streams.Outgoing
	versions map[string]uint64 // node subject → version told last
	bodies   map[string]string // Edict-Id → body
	told     map[string]bool   // Edict-Id in this incarnation
	broken   []string
	batches  int
	lag      uint64 // Last answers as a replica that is so far behind
	tooMany  bool
	max      int
	ttl      time.Duration
}

func newFakeServer() *fakeServer {
	s := &fakeServer{bodies: map[string]string{}, max: 100, ttl: 30 * day}
	s.remake()
	return s
}

func (s *fakeServer) remake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
	s.first = uint64(s.life) * 1000000
	s.last = s.first - 1
	s.msgs, s.expires = map[string]streams.Message{}, map[string]time.Time{}
	s.known, s.versions, s.told = map[string]bool{}, map[string]uint64{}, map[string]bool{}
	s.wakeLocked()
}

func (s *fakeServer) wakeLocked() {
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *fakeServer) breaks(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
}

// open returns a handle as OpenNodes would.
func (s *fakeServer) open() *fakeStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &fakeStream{s: s, first: s.first, life: s.life}
}

func (s *fakeServer) expireLocked() {
	now := time.Now()
	for subject, at := range s.expires {
		if !now.Before(at) {
			delete(s.msgs, subject)
			delete(s.expires, subject)
		}
	}
}

func (s *fakeServer) store(msgs []streams.Outgoing) (first uint64, err error) {
	for _, m := range msgs {
		if m.MsgID != "" && s.known[m.MsgID] {
			return 0, streams.ErrDuplicate
		}
	}
	for _, m := range msgs {
		if m.HasExpect && m.Expect != s.msgs[m.Subject].Seq {
			return 0, streams.ErrWrongSequence
		}
	}
	s.batches++
	first = s.last + 1
	for _, m := range msgs {
		s.last++
		if m.MsgID != "" {
			s.known[m.MsgID] = true
		}
		header := map[string][]string{}
		for i := 0; i+1 < len(m.Header); i += 2 {
			header[m.Header[i]] = []string{m.Header[i+1]}
		}
		s.watch(m, header)
		s.msgs[m.Subject] = streams.Message{Seq: s.last, Subject: m.Subject, Body: m.Body, Header: header, Time: time.Now()}
		delete(s.expires, m.Subject)
		if m.TTL > 0 {
			s.expires[m.Subject] = time.Now().Add(m.TTL)
		}
	}
	s.wakeLocked()
	return first, nil
}

func (s *fakeServer) watch(m streams.Outgoing, header map[string][]string) {
	if _, _, ok := splitNodeSubject(m.Subject); !ok {
		return
	}
	id := header[streams.HeaderEdictID][0]
	version, _ := strconv.ParseUint(header[streams.HeaderEdictLogSeq][0], 10, 64)
	if version < s.versions[m.Subject] {
		s.breaks("promise 2: version of %s falls from %d to %d", m.Subject, s.versions[m.Subject], version)
	}
	s.versions[m.Subject] = version
	if s.told[id] {
		s.breaks("promise 2: %s told twice", id)
	}
	s.told[id] = true
	body := unsigned(string(m.Body))
	if was, ok := s.bodies[id]; ok && was != body {
		s.breaks("promise 5: %s has two bodies:\n%s\n%s", id, was, body)
	}
	s.bodies[id] = body
}

// unsigned is an envelope without its signature, which depends on what else was
// in its run.
func unsigned(body string) string {
	before, rest, ok := strings.Cut(body, `,"signature":{`)
	_, after, closed := strings.Cut(rest, "}")
	if !ok || !closed {
		return "not sealed: " + body
	}
	return before + after
}

// land stores a delayed batch, if it still can be.
func (s *fakeServer) land(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.late) == 0 {
		return
	}
	i %= len(s.late)
	msgs := s.late[i]
	s.late = slices.Delete(s.late, i, i+1)
	_, _ = s.store(msgs)
}

// get is the retained message of a subject.
func (s *fakeServer) get(subject string) (streams.Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	m, ok := s.msgs[subject]
	return m, ok
}

func (s *fakeServer) selectLocked(from, to uint64, filters []string) (out []streams.Message) {
	s.expireLocked()
	for m := range maps.Values(s.msgs) {
		if m.Seq >= from && m.Seq <= to && slices.ContainsFunc(filters, func(f string) bool { return matches(f, m.Subject) }) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b streams.Message) int { return int(a.Seq) - int(b.Seq) })
	return out
}

func matches(filter, subject string) bool {
	if prefix, ok := strings.CutSuffix(filter, ">"); ok {
		return strings.HasPrefix(subject, prefix)
	}
	ok, _ := path.Match(strings.ReplaceAll(filter, ".", "/"), strings.ReplaceAll(subject, ".", "/"))
	return ok
}

// fakeStream is a handle of a fakeServer. Like the real one it publishes and
// reads by name, so it works on whatever incarnation stands.
type fakeStream struct {
	s     *fakeServer
	first uint64
	life  int
}

func (f *fakeStream) First() uint64               { return f.first }
func (f *fakeStream) TombstoneTTL() time.Duration { return f.s.ttl }
func (f *fakeStream) MaxBatch() int               { return f.s.max }
func (f *fakeStream) MaxMessage() int             { return 8 << 20 }

func (f *fakeStream) State(context.Context) (streams.State, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return streams.State{First: f.s.first, Last: f.s.last}, nil
}

func (f *fakeStream) PublishBatch(ctx context.Context, msgs []streams.Outgoing) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	todo := deliver
	if s.fate != nil {
		todo = s.fate(msgs)
	}
	switch todo {
	case busy:
		return 0, streams.ErrBusy
	case tooLarge:
		return 0, streams.ErrTooLarge
	case loseAll:
		return 0, streams.ErrUnknown
	case delay:
		s.late = append(s.late, msgs)
		return 0, streams.ErrUnknown
	case loseAck:
		_, _ = s.store(msgs)
		return 0, streams.ErrUnknown
	}
	return s.store(msgs)
}

func (f *fakeStream) Last(_ context.Context, from uint64, filters ...string) ([]streams.Message, uint64, error) {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tooMany && slices.ContainsFunc(filters, func(f string) bool { return strings.HasPrefix(f, nodePrefix) }) {
		return nil, 0, streams.ErrTooMany
	}
	upTo := s.last
	if s.lag > 0 {
		upTo = s.last - s.lag
		s.lag-- // it catches up while it is asked
	}
	return s.selectLocked(from, upTo, filters), upTo, nil
}

func (f *fakeStream) Read(_ context.Context, from, to uint64, filters ...string) iter.Seq2[[]streams.Message, error] {
	s := f.s
	s.mu.Lock()
	msgs := s.selectLocked(from, to, filters)
	s.mu.Unlock()
	return func(yield func([]streams.Message, error) bool) {
		for batch := range slices.Chunk(msgs, 3) {
			if !yield(batch, nil) {
				return
			}
		}
	}
}

func (f *fakeStream) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	s := f.s
	return func(yield func([]streams.Message, error) bool) {
		for {
			s.mu.Lock()
			if s.life != f.life {
				s.mu.Unlock()
				yield(nil, &streams.DamagedError{Detail: "remade"})
				return
			}
			msgs := s.selectLocked(from, s.last, []string{"edict.>"})
			next, changed := s.last+1, s.changed
			s.mu.Unlock()
			if len(msgs) > 0 && !yield(msgs, nil) {
				return
			}
			from = next
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}
