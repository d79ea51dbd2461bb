package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/artifact"
)

// Subjects and headers of native NATS (contracts, Events and streams).
const (
	livePrefix   = "edict.live.node."
	replayPrefix = "edict.replay.node."
	headerSeq    = "Nats-Sequence"
	headerPrev   = "Nats-Last-Sequence" // of the message before on the same subject
	headerUpTo   = "Edict-Up-To"
	headerResync = "Edict-Resync"
	headerError  = "Edict-Error"
	headerEvent  = "Edict-Event" // of a notice that an answer begins with
)

// answerPatience bounds the wait for each message of an answer.
const answerPatience = 10 * time.Second

// A worker that has not come as far as a live message is asked again, at
// growing intervals.
const (
	leastLag = 2 * time.Millisecond
	mostLag  = time.Second
)

var (
	errNobody  = errors.New("no plane answers on NATS")
	errDropped = errors.New("a part of an answer was dropped before it was read")
)

// session is one connection to NATS.
type session struct {
	f       *Follower
	nc      *nats.Conn
	live    *nats.Subscription
	inbox   *nats.Subscription
	base    string // of the subjects answers come to
	asked   uint64 // questions so far; each has a subject of its own
	whole   bool   // one of them was answered
	dropped int    // live messages known to be lost
	doubt   int    // live messages to pass over: they came around what was lost
	twice   bool   // what was lost is to be asked for twice
	lag     time.Duration

	strangers []*nats.Msg // live messages whose key is not known
	yield     func(Event, error) bool
}

// native follows one connection to NATS to its end. Each begins with a
// question: what was missed while there was none.
func (f *Follower) native(ctx context.Context, yield func(Event, error) bool) (progress bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := func(err error) {
		if err == nil {
			err = nats.ErrConnectionClosed
		}
		cancel(fmt.Errorf("the NATS connection ended: %w", err))
	}
	// Where nodes are kept apart, each may listen below its own inbox alone.
	nc, err := nats.Connect(f.opt.NATS, nats.NoReconnect(), nats.Name("edict node "+string(f.id)), f.shown(),
		nats.CustomInboxPrefix("_INBOX."+string(f.id)),
		nats.ClosedHandler(func(nc *nats.Conn) { ended(nc.LastError()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			switch {
			case errors.Is(err, nats.ErrPermissionViolation):
				ended(err)
			case errors.Is(err, nats.ErrSlowConsumer):
				f.overrun.Add(1)
			}
		}))
	if err != nil {
		return false, fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	s := &session{f: f, nc: nc, base: nc.NewInbox(), yield: yield}
	if err := s.subscribe(); err != nil {
		return false, err
	}
	if f.server == "" {
		f.puller = s.retained
	}
	if f.splice != nil {
		f.splice.cut()
	}
	err = s.run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, errStopped) {
		err = cause
	}
	return s.whole, err
}

// shown are the credentials for the server.
func (f *Follower) shown() nats.Option {
	return func(o *nats.Options) error {
		o.Token = f.opt.Token
		if f.opt.Creds != "" {
			if err := nats.UserCredentials(f.opt.Creds)(o); err != nil {
				return err
			}
		}
		if f.opt.TLS != nil {
			return nats.Secure(f.opt.TLS)(o)
		}
		return nil
	}
}

func (s *session) subscribe() (err error) {
	if s.inbox, err = s.nc.SubscribeSync(s.base + ".*"); err != nil {
		return err
	}
	if s.live, err = s.nc.SubscribeSync(livePrefix + string(s.f.id) + ".>"); err != nil {
		return err
	}
	if n := s.f.opt.Pending; n > 0 {
		return s.live.SetPendingLimits(n, -1)
	}
	return nil
}

// run asks, and between the questions takes what is live.
func (s *session) run(ctx context.Context) error {
	next := time.Now() // of the next question
	for {
		if !time.Now().Before(next) {
			behind, err := s.ask(ctx)
			if err != nil {
				return err
			}
			if !s.whole {
				s.whole = true
				s.f.opt.Connected()
			}
			if err := s.judge(ctx); err != nil {
				return err
			}
			next = s.pace(behind)
			continue
		}
		m, err := s.next(ctx, next)
		if err != nil {
			return err
		}
		if s.lost() {
			next = time.Now()
			continue
		}
		if m == nil {
			continue
		}
		if s.doubt > 0 {
			s.doubt--
			continue
		}
		hole, err := s.take(ctx, m)
		if err != nil {
			return err
		}
		if hole && s.lag == 0 {
			next = time.Now()
		}
	}
}

// pace is when to ask again: soon when the worker that answered is behind.
func (s *session) pace(behind bool) time.Time {
	if !behind && s.twice {
		s.twice = false
		return time.Now().Add(min(mostLag, s.f.opt.AskEvery))
	}
	if !behind {
		s.lag = 0
		return time.Now().Add(s.f.opt.AskEvery)
	}
	s.lag = min(max(2*s.lag, leastLag), mostLag)
	return time.Now().Add(s.lag)
}

// next is the next live message, or nil when it is time to ask, or when some
// were dropped.
func (s *session) next(ctx context.Context, until time.Time) (*nats.Msg, error) {
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	m, err := s.live.NextMsgWithContext(wait)
	switch {
	case err == nil:
		return m, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrSlowConsumer):
		return nil, nil
	}
	return nil, err
}

// lost reports whether live messages were dropped since it was called last.
// Where among those that wait the hole is nobody knows, so they are passed over
// and the next answers bring them. They are asked for twice, because the first
// answer may come from a worker that is behind.
func (s *session) lost() bool {
	n, err := s.live.Dropped()
	if err != nil || n == s.dropped {
		return false
	}
	s.dropped, s.twice = n, true
	s.doubt, _, _ = s.live.Pending() // fails with the connection
	s.f.splice.cut()
	return true
}

// take judges a live message. What is not the plane's word to this node is
// dropped and counted: it came from somebody else, and ends nothing. hole means
// that only an answer can help.
func (s *session) take(ctx context.Context, m *nats.Msg) (hole bool, err error) {
	i, err := s.openLive(m)
	if errors.Is(err, artifact.ErrUnknownKey) {
		return s.hold(m), nil // the plane may have a new key, which an answer announces
	}
	if err != nil {
		s.forged(m, err)
		return false, nil
	}
	return s.takeItem(ctx, i)
}

// openLive verifies a live message, its subject included.
func (s *session) openLive(m *nats.Msg) (item, error) {
	i, err := s.open(m)
	if err == nil {
		i.prev, err = number(m, headerPrev)
	}
	if err == nil && m.Subject != livePrefix+string(s.f.id)+"."+i.name {
		err = fmt.Errorf("it is about %.80q", i.name)
	}
	return i, err
}

// takeItem hands out what a live message lets be told.
func (s *session) takeItem(ctx context.Context, i item) (hole bool, err error) {
	if s.known(i.event) {
		return false, nil
	}
	out, hole := s.f.splice.live(i)
	return hole, s.deliver(ctx, out)
}

// known reports whether the event is not newer than what was told of its policy:
// its envelope is signed, the sequence beside it is not.
func (s *session) known(e Event) bool {
	return e.Policy != nil && e.Version <= s.f.rows.version(e.Policy.PolicyID)
}

// open verifies the envelope of a message.
func (s *session) open(m *nats.Msg) (item, error) {
	seq, err := number(m, headerSeq)
	if err != nil {
		return item{}, err
	}
	env, err := s.f.trust.Open(m.Data)
	if err != nil {
		return item{}, err
	}
	e, err := decodeEnvelope(s.f.id, seq, env)
	if err != nil {
		return item{}, err
	}
	name := env.Name
	if env.Kind != artifact.KindPolicy {
		name = "artifact." + env.Kind + "." + env.Name
	}
	return item{seq: seq, name: name, event: e}, nil
}

func number(m *nats.Msg, header string) (uint64, error) {
	text := m.Header.Get(header)
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("header %s %.40q is not a sequence number", header, text)
	}
	return n, nil
}

// answer is what was retained after a sequence, rising, complete up to another.
type answer struct {
	items  []item
	upTo   uint64
	resync bool
}

// question asks the plane for what is retained after a sequence.
func (s *session) question(ctx context.Context, after uint64) (answer, error) {
	s.asked++
	subject := s.base + "." + strconv.FormatUint(s.asked, 10)
	lost, _ := s.inbox.Dropped() // fails on a closed subscription, which the next call tells
	err := s.nc.PublishRequest(replayPrefix+string(s.f.id), subject, fmt.Appendf(nil, `{"after":%d}`, after))
	if err != nil {
		return answer{}, err
	}
	var a answer
	for {
		m, err := s.part(ctx, subject)
		if err != nil {
			return answer{}, err
		}
		if text := m.Header.Get(headerError); text != "" {
			return answer{}, fmt.Errorf("the plane could not answer: %.200s", text)
		}
		if m.Header.Get(headerUpTo) != "" {
			a.upTo, err = number(m, headerUpTo)
			a.resync = m.Header.Get(headerResync) == "true"
			if now, _ := s.inbox.Dropped(); err == nil && now != lost {
				err = errDropped
			}
			slices.SortFunc(a.items, func(a, b item) int { return int(int64(a.seq - b.seq)) })
			return a, err
		}
		if m.Header.Get(headerEvent) == artifact.TypeKeyRotated {
			if err := s.rotated(m); err != nil {
				return answer{}, s.f.refuse("", err)
			}
			continue
		}
		i, err := s.open(m)
		if err != nil {
			return answer{}, s.f.refuse(m.Header.Get(headerSeq), err)
		}
		a.items = append(a.items, i)
	}
}

// part is the next message of the answer that comes to a subject. Those of a
// question given up are skipped.
func (s *session) part(ctx context.Context, subject string) (*nats.Msg, error) {
	wait, cancel := context.WithTimeout(ctx, min(answerPatience, s.f.opt.Silence))
	defer cancel()
	for {
		m, err := s.inbox.NextMsgWithContext(wait)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
			return nil, fmt.Errorf("%w at %s%s", errNobody, replayPrefix, s.f.id)
		case errors.Is(err, nats.ErrSlowConsumer):
			return nil, errDropped
		case err != nil:
			return nil, err
		}
		if m.Subject == subject {
			return m, nil
		}
	}
}

// ask hands out what was missed. behind means that a live message waits for an
// answer that reaches further.
func (s *session) ask(ctx context.Context) (behind bool, err error) {
	f := s.f
	if !f.begun {
		return true, s.beginRetained(ctx)
	}
	after := f.splice.confirmed
	a, err := s.question(ctx, after)
	if err != nil {
		return false, err
	}
	f.refused = 0
	if a.resync {
		if a.upTo < after {
			f.splice.restart(a.upTo)
		}
		if err := s.word(ctx, min(after, a.upTo)); err != nil {
			return false, err
		}
	}
	out, late, behind := f.splice.answer(a.items, a.upTo)
	if err := s.deliver(ctx, out); err != nil {
		return false, err
	}
	if late {
		err = s.word(ctx, f.splice.told)
	}
	return behind, err
}

// word pulls the state, and tells so.
func (s *session) word(ctx context.Context, seq uint64) error {
	e := Event{Seq: seq, Type: TypeStateUpdated}
	if err := s.f.handle(ctx, &e); err != nil {
		return err
	}
	return s.told(e)
}

// deliver hands out events, and saves the state when no more are at hand.
func (s *session) deliver(ctx context.Context, out []item) error {
	for _, i := range out {
		if s.known(i.event) {
			continue // told before the state was saved
		}
		if err := s.f.handle(ctx, &i.event); err != nil {
			return err
		}
		if err := s.told(i.event); err != nil {
			return err
		}
	}
	s.f.cursor.Store(max(s.f.splice.confirmed, s.f.pulled))
	if n, _, err := s.live.Pending(); err == nil && n > 0 {
		return nil
	}
	return s.f.save()
}

func (s *session) told(e Event) error {
	if !s.yield(e, nil) {
		return errors.Join(errStopped, s.f.save())
	}
	return nil
}

// beginRetained begins with everything that the stream retains, as a pull
// would.
func (s *session) beginRetained(ctx context.Context) error {
	st, err := s.retained(ctx)
	if err != nil {
		return err
	}
	s.f.refused = 0
	s.f.take(st)
	s.f.begin(st.Seq)
	return s.f.save()
}

// retained is the state as the stream retains it: the last message of each
// policy. It has no body, which only HTTP tells.
func (s *session) retained(ctx context.Context) (State, error) {
	a, err := s.question(ctx, 0)
	if err != nil {
		return State{}, err
	}
	var told set
	for _, i := range a.items {
		if i.event.Policy != nil {
			told.apply(i.event)
		}
	}
	rows := told.list()
	return State{Seq: a.upTo, Merged: Merge(rows), Rows: rows}, nil
}
