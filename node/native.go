package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// answerPatience bounds the wait for each message of an answer.
const answerPatience = 10 * time.Second

// A worker that is behind is asked again, at growing intervals.
const (
	minLag = 2 * time.Millisecond
	maxLag = time.Second
)

var (
	errNobody  = errors.New("no plane answers on NATS")
	errDropped = errors.New("a part of an answer was dropped before it was read")
	errBehind  = errors.New("the worker that was asked is behind the log")
)

// session is one connection to NATS.
type session struct {
	f       *Follower
	nc      *nats.Conn
	live    *nats.Subscription
	inbox   *nats.Subscription
	base    string    // of the subjects answers come to
	asked   uint64    // number of questions so far; each has a subject of its own
	whole   bool      // one of them was answered
	answers time.Time // when the last one was
	next    time.Time // of the next question
	behind  bool      // the worker that was asked last; it is asked again after lag
	lag     backoff.Backoff
	dropped int // live messages known to be lost

	unknownKey []*nats.Msg // live messages whose key is not known
	yield      func(Event, error) bool
}

// native follows one connection to NATS to its end. It begins with a replay request
// for what was missed before.
func (f *Follower) native(ctx context.Context, yield func(Event, error) bool) (progress bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := func(err error) {
		if err == nil {
			err = nats.ErrConnectionClosed
		}
		cancel(fmt.Errorf("the NATS connection ended: %w", natsAccess(f.id, err)))
	}
	if err := checkPorts(f.opt.NATS); err != nil {
		return false, err
	}
	// With permissions for each node, a node may subscribe only to its own inbox.
	nc, err := nats.Connect(f.opt.NATS, nats.NoReconnect(), nats.Name("edict node "+string(f.id)), f.credentials(),
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
		if errors.As(err, new(*url.Error)) {
			return false, noServers(f.opt.NATS) // the error has it as it is, with a password
		}
		return false, fmt.Errorf("connect to NATS at %s: %w", wire.ShownServers(f.opt.NATS), natsAccess(f.id, err))
	}
	defer nc.Close()
	s := &session{f: f, nc: nc, base: nc.NewInbox(), lag: backoff.Backoff{Least: minLag, Most: maxLag}, yield: yield}
	if err := s.subscribe(); err != nil {
		return false, err
	}
	if f.documents.server == "" {
		f.puller = s.retained
	}
	err = s.run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, errStopped) {
		err = cause
	}
	return s.whole, err
}

// credentials are the credentials for the server.
func (f *Follower) credentials() nats.Option {
	return func(o *nats.Options) error {
		if o.Token = f.opt.Token; f.opt.TokenFrom != nil {
			o.Token = f.opt.TokenFrom()
		}
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
	if s.live, err = s.nc.SubscribeSync(wire.PrefixNode + string(s.f.id) + ".>"); err != nil {
		return err
	}
	if n := s.f.opt.Pending; n > 0 {
		return s.live.SetPendingLimits(n, -1)
	}
	return nil
}

// run asks, and takes live messages between the questions.
func (s *session) run(ctx context.Context) error {
	s.next = time.Now()
	for {
		if !time.Now().Before(s.next) {
			if err := s.askOnce(ctx); err != nil {
				return err
			}
			continue
		}
		m, err := s.nextLive(ctx)
		if err != nil {
			return err
		}
		if s.lost() {
			s.askSoon(0)
		}
		if m == nil {
			continue
		}
		if err := s.take(ctx, m); err != nil {
			return err
		}
	}
}

// askOnce asks once.
func (s *session) askOnce(ctx context.Context) error {
	behind, err := s.ask(ctx)
	answered := err == nil
	if errors.Is(err, errBehind) {
		behind, err = true, nil
	}
	s.pace(behind)
	if err != nil || !answered {
		return err
	}
	s.answers = time.Now()
	if !s.whole {
		s.whole = true
		s.f.opened()
	}
	return s.retryHeld(ctx)
}

// pace sets when to ask again: soon if the worker that was asked is behind.
func (s *session) pace(behind bool) {
	if s.behind = behind; behind {
		s.next = time.Now().Add(s.lag.Next())
		return
	}
	s.lag.Reset()
	s.next = time.Now().Add(s.f.opt.AskEvery)
}

// askSoon has the plane asked at once, or when a pause since the last answer is over.
// It does nothing while a worker that is behind is waited for.
func (s *session) askSoon(pause time.Duration) {
	if at := s.answers.Add(pause); !s.behind && at.Before(s.next) {
		s.next = at
	}
}

// nextLive is the next live message; nil when it is time to ask, or when messages were
// dropped.
func (s *session) nextLive(ctx context.Context) (*nats.Msg, error) {
	wait, cancel := context.WithDeadline(ctx, s.next)
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

// lost reports whether live messages were dropped since it was called last. The
// next message would show it too, but there may be none for long.
func (s *session) lost() bool {
	n, err := s.live.Dropped()
	if err != nil || n == s.dropped {
		return false
	}
	s.dropped = n
	return true
}

// take handles a live message. One that the plane did not sign for this node is
// dropped and counted. It does not end the connection: anybody may have published it.
func (s *session) take(ctx context.Context, m *nats.Msg) error {
	i, err := s.openLive(m)
	switch {
	case errors.Is(err, artifact.ErrUnknownKey):
		s.hold(m) // the plane may have a new key, which an answer announces
	case err != nil:
		s.forged(m, err)
	case s.ofAnotherLog(m, i):
		// The message or the last answer is of a log that was replaced. An answer shows
		// which, but not at once after the last one: a worker that does not know of the
		// new log may go on publishing.
		s.askSoon(maxLag)
	default:
		return s.takeItem(ctx, i)
	}
	return nil
}

// ofAnotherLog reports whether a live message is of another log than the last
// answer, or no answer has shown yet which log that is. Else who has missed nothing would
// take an old message under an id to come.
func (s *session) ofAnotherLog(m *nats.Msg, i item) bool {
	log := m.Header.Get(wire.HeaderLog)
	return log != "" && s.f.log != "" && log != s.f.log || i.base != 0 && i.base != s.f.base
}

// openLive verifies a live message, its subject included.
func (s *session) openLive(m *nats.Msg) (item, error) {
	i, err := s.open(m)
	if err == nil {
		i.prev, err = eventID(m, wire.HeaderPrev)
	}
	if err == nil && m.Subject != wire.PrefixNode+string(s.f.id)+"."+i.name {
		err = fmt.Errorf("it is about %.80q", i.name)
	}
	return i, err
}

// takeItem hands out a live message, and those that waited for it.
func (s *session) takeItem(ctx context.Context, i item) error {
	if i.event.Type == TypeStateUpdated && !s.f.splice.next(i) {
		return s.handlePull(ctx, i)
	}
	before := s.f.splice.mark()
	out, hole := s.f.splice.live(i)
	if hole {
		s.askSoon(0)
	}
	return s.deliver(ctx, out, before)
}

// handlePull handles a node_state_updated that is not next in order. One about the table
// is ignored if it came before, or if an answer had everything up to it.
func (s *session) handlePull(ctx context.Context, i item) error {
	if i.event.Reason == artifact.ReasonDatapath && s.f.splice.knows(i) {
		return nil
	}
	s.f.splice.note(i)
	if i.id > s.f.splice.delivered {
		s.askSoon(0) // something is missing before it
	}
	return s.pull(ctx, s.f.splice.delivered, i.event.Reason)
}

// known reports whether the rows have this event of its policy, or a later one.
func (s *session) known(e Event) bool {
	return e.Policy != nil && e.ID <= s.f.rows.lastID(e.Policy.PolicyID)
}

// open verifies the envelope of a message. Its id is not signed, but the log
// sequence in it is.
func (s *session) open(m *nats.Msg) (item, error) {
	id, err := eventID(m, wire.HeaderEventID)
	if err != nil {
		return item{}, err
	}
	env, err := s.f.trust.Open(m.Data)
	if err != nil {
		return item{}, err
	}
	e, name, err := decodeEnvelope(s.f.id, id, env)
	if err != nil {
		return item{}, err
	}
	e.Traceparent = boundedTrace(m.Header.Get(wire.HeaderTraceparent))
	place, _ := id.Seq(0)
	if place < env.Version {
		return item{}, fmt.Errorf("its id %s is not one of log sequence %d", id, env.Version)
	}
	return item{id: id, name: name, base: place - env.Version, event: e}, nil
}

func eventID(m *nats.Msg, header string) (policy.EventID, error) {
	id, err := policy.ParseEventID(m.Header.Get(header))
	if err != nil {
		return 0, fmt.Errorf("header %s: %w", header, err)
	}
	return id, nil
}

// matters reports whether an event that came too late to be handed out in order
// differs from the rows.
func (s *session) matters(i item) bool {
	e := i.event
	switch {
	case i.id <= s.f.pulled:
		return false
	case e.Policy != nil:
		return !s.known(e) && !s.f.rows.holds(e.Policy)
	}
	return true
}

// pull pulls the state, and yields that as an event. One that fails stays owed: nothing else
// would have the node pull.
func (s *session) pull(ctx context.Context, id policy.EventID, reason string) error {
	s.f.owed = reason
	e := Event{ID: id, Type: TypeStateUpdated, Reason: reason}
	if err := s.f.handle(ctx, &e); err != nil {
		return err
	}
	s.f.owed = ""
	if err := s.yieldEvent(e); err != nil {
		return err
	}
	return s.keep()
}

// deliver hands out events. The splice, which stood at a mark before, takes back those that
// come to nothing.
func (s *session) deliver(ctx context.Context, out []item, before mark) error {
	for k, i := range out {
		if s.known(i.event) && i.id != s.f.unhandled {
			continue // handed out before the state was saved
		}
		if err := s.f.handle(ctx, &i.event); err != nil {
			s.f.splice.back(before, out[k:])
			if i.event.Type == TypeStateUpdated {
				s.f.owed = i.event.Reason
			}
			return err
		}
		before.delivered = i.id
		if err := s.yieldEvent(i.event); err != nil {
			s.f.splice.back(before, out[k+1:])
			return err
		}
	}
	return s.keep()
}

// keep moves the cursor, and saves the state when no more messages are at hand. While a pull
// is owed the rows lack something below the cursor.
func (s *session) keep() error {
	if s.f.owed != "" {
		return nil
	}
	s.f.cursor.Store(uint64(max(s.f.splice.confirmed, s.f.pulled)))
	if n, _, err := s.live.Pending(); err == nil && n > 0 {
		return nil
	}
	return s.f.save()
}

func (s *session) yieldEvent(e Event) error {
	if !s.yield(e, nil) {
		return errors.Join(errStopped, s.f.save())
	}
	return nil
}

// beginRetained begins with everything that the node has, as a pull would.
func (s *session) beginRetained(ctx context.Context) error {
	st, err := s.retained(ctx)
	if err != nil {
		return err
	}
	s.f.refused = 0
	s.f.take(st)
	s.f.begin(st.ID)
	return s.f.save()
}

// retained is the state over NATS: the answer to a replay request for everything. It
// has no body, which only HTTP has.
func (s *session) retained(ctx context.Context) (State, error) {
	a, err := s.question(ctx, 0)
	lag := backoff.Backoff{Least: minLag, Most: maxLag}
	for errors.Is(err, errBehind) && ctx.Err() == nil {
		_ = lag.Pause(ctx)
		a, err = s.question(ctx, 0)
	}
	if err != nil {
		return State{}, err
	}
	var received set
	for _, i := range a.items {
		if i.event.Policy != nil {
			received.apply(i.event)
		}
	}
	rows := received.list()
	return State{ID: a.upTo, Merged: merged(rows), Rows: rows}, nil
}
