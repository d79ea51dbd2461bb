package integrity

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// DefaultEvery is how often the log's head is witnessed, if it moved, and the
// log is asked whether it still is the one that was folded.
const DefaultEvery = time.Minute

// reconnectLook is how often it is looked whether the connection was lost.
const reconnectLook = 100 * time.Millisecond

// Log is what is asked of the log; *streams.Log is one.
type Log interface {
	Extent
	Get(ctx context.Context, seq uint64) (streams.Message, error)
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
	State(ctx context.Context) (streams.State, error)
	Settings(ctx context.Context) error
	Replicas(ctx context.Context) error
	First() uint64
	Origin() (o streams.Origin, ok bool)
	Base() uint64
}

// Fold is what is asked of the read model; *projector.Projector is one. What
// the methods promise is said there.
type Fold interface {
	Applied() uint64
	Changed() <-chan struct{}
	Links() []streams.Link
	Head() streams.Link
	Witness(links []streams.Link) error
	Verify(ctx context.Context, log interface {
		Get(ctx context.Context, seq uint64) (streams.Message, error)
	}) error
}

// Connection is what is asked of the connection to the log; *streams.Conn is one.
type Connection interface {
	Connected() bool
	Reconnects() uint64
}

// Options are what a Monitor works on. All but Every and Serving are required.
type Options struct {
	Alarm   *Alarm
	Witness *Witness
	Log     Log
	Fold    Fold
	Conn    Connection
	// Leads reports whether this process is the one of all workers that lengthens
	// the witness and reads the log again.
	Leads func() bool
	// Origin is a *streams.LostOriginError where the log was compacted and what it begins with is
	// gone; nil: it is not asked.
	Origin func(ctx context.Context) error
	Every  time.Duration // 0: DefaultEvery
	Logger *slog.Logger
	// Serving: somebody asks this process, which therefore stays when the log is
	// damaged, to be seen and asked. One that serves nobody ends.
	Serving bool
}

// Monitor runs the fold and compares it with the log's witness.
type Monitor struct {
	opt Options
	log *slog.Logger
	// confirmed is how often the connection had been lost when the log was
	// verified last.
	confirmed atomic.Uint64
	settings  advice[streams.ConfigError, *streams.ConfigError]   // of the log, that contradict
	replicas  advice[streams.ReplicaError, *streams.ReplicaError] // of the log, that are away
	origin    advice[streams.LostOriginError, *streams.LostOriginError]
}

// NewMonitor makes it; Run starts it.
func NewMonitor(opt Options) *Monitor {
	opt.Every = cmp.Or(opt.Every, DefaultEvery)
	return &Monitor{opt: opt, log: opt.Logger}
}

// Confirmed reports whether the log is known to be the one that was folded: it
// was verified since it was last out of reach.
func (m *Monitor) Confirmed() bool {
	return m.opt.Conn.Connected() && m.opt.Conn.Reconnects() == m.confirmed.Load() && m.opt.Alarm.Raised() == nil
}

// Run runs fold until ctx ends, and watches the log meanwhile. When the log turns
// out to be damaged, fold is ended.
func (m *Monitor) Run(ctx context.Context, fold func(context.Context) error) error {
	run, stop := context.WithCancel(ctx)
	defer stop()
	alarm := m.opt.Alarm
	alarm.stopFold(stop)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		m.watch(run)
	}()
	err := fold(run)
	if Damaged(err) {
		if named := m.named(ctx, m.opt.Witness.known(), err); Damaged(named) {
			err = named
		}
		alarm.Raise(err)
	}
	if errors.As(err, new(*streams.CompactedError)) {
		err = &OvertakenError{err}
	}
	stop()
	<-watched
	if restart := alarm.restartRequired(); restart != nil {
		return restart
	}
	damage := alarm.Raised()
	if damage == nil {
		return err
	}
	if !m.opt.Serving {
		return damage
	}
	<-ctx.Done()
	return nil
}

// watch compares the fold with the witness, and lengthens it, until ctx ends or
// the alarm is raised.
func (m *Monitor) watch(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { m.follow(ctx) })
	parts.Go(func() { m.keepAudited(ctx) })
	m.keep(ctx)
	parts.Wait()
}

// follow has the fold compared with every link as it is written, by whoever
// writes it.
func (m *Monitor) follow(ctx context.Context) {
	again := backoff.Steady(time.Second)
	for m.followChain(ctx) && again.Pause(ctx) == nil {
		_ = m.opt.Witness.reopen(ctx) // said when it is followed
	}
}

// followChain is follow of the witness that is open now. It is false when the
// fold is to end.
func (m *Monitor) followChain(ctx context.Context) bool {
	w := m.opt.Witness
	chain, at, _ := w.end()
	for links, err := range chain.Follow(ctx, at+1) {
		if err != nil {
			m.log.Warn("the log's witness cannot be followed; trying again", "stream", streams.ChainStream, "error", err)
			break
		}
		effective := streams.EffectiveLinks(links)
		if err := m.rebased(effective); err != nil {
			m.opt.Alarm.requireRestart(err)
			return false
		}
		w.note(links[len(links)-1].At, effective)
		if err := m.opt.Fold.Witness(effective); err != nil {
			m.opt.Alarm.Raise(err)
			return false
		}
	}
	return true
}

// rebased is a *RestoredError if links have a higher base than this process
// gives ids from.
func (m *Monitor) rebased(links []streams.Link) error {
	for _, l := range links {
		if l.Base > m.opt.Log.Base() {
			return &RestoredError{Base: l.Base, Was: m.opt.Log.Base()}
		}
	}
	return nil
}

// keep lengthens the witness where this process is the one to do it, and
// verifies the log, now and then and whenever the connection to it was lost.
func (m *Monitor) keep(ctx context.Context) {
	regular := time.NewTicker(m.opt.Every)
	defer regular.Stop()
	look := time.NewTicker(min(m.opt.Every, reconnectLook))
	defer look.Stop()
	for {
		changed := m.opt.Fold.Changed()
		_ = m.lengthen(ctx, false) // said; tried again
		select {
		case <-changed:
		case <-look.C:
			if n := m.opt.Conn.Reconnects(); n != m.confirmed.Load() && m.verify(ctx) {
				m.confirmed.Store(n)
			}
		case <-regular.C:
			m.verify(ctx)
			m.checkSettings(ctx)
			m.checkReplicas(ctx)
			m.checkOrigin(ctx)
			_ = m.lengthen(ctx, true) // said; tried again
		case <-ctx.Done():
			return
		}
	}
}

// verify asks the log whether it still is the one that was folded and
// witnessed, and raises the alarm when it is not. It is false when the log did
// not answer.
func (m *Monitor) verify(ctx context.Context) bool {
	links := m.opt.Witness.known()
	err := m.opt.Log.VerifyExtent(ctx, links)
	if err == nil {
		err = m.named(ctx, links, m.opt.Fold.Verify(ctx, m.opt.Log))
	}
	if Damaged(err) {
		m.opt.Alarm.Raise(err)
	}
	return err == nil || Damaged(err)
}

// named is the damage that a fold met which found another log than its own, or why the
// log does not say; any other error is as it was. A process that runs has folded this
// very log: what is missing or differs now is damage.
func (m *Monitor) named(ctx context.Context, links []streams.Link, met error) error {
	var other *projector.OtherLogError
	if !errors.As(met, &other) || other.Seq == 0 {
		return met
	}
	if err := m.opt.Log.VerifyExtent(ctx, links); err != nil {
		return err // it may have been replaced since it was asked
	}
	s, err := m.opt.Log.State(ctx)
	if err != nil {
		return err
	}
	d := &streams.DamagedError{Damage: streams.DamageChanged, From: other.Seq, To: other.Seq, Detail: other.Error()}
	if s.Last < other.Seq {
		d.Damage, d.From = streams.DamageTruncated, s.Last+1
	}
	return d
}

// lengthen appends the fold's links that the witness lacks, and with head one
// for where the fold stands. It is the business of one worker, but no harm is
// done when two try: the entry that another wrote first is read, and compared,
// like any.
func (m *Monitor) lengthen(ctx context.Context, head bool) error {
	_, _, last := m.opt.Witness.end()
	if !head && m.opt.Fold.Applied()/projector.LinkEvery <= last.Seq/projector.LinkEvery || !m.opt.Leads() {
		return nil
	}
	return m.append(ctx, head)
}

// append is lengthen, whoever's business it is.
func (m *Monitor) append(ctx context.Context, head bool) error {
	chain, at, last := m.opt.Witness.end()
	if m.opt.Alarm.Raised() != nil {
		return nil
	}
	links := m.opt.Fold.Links()
	if head {
		links = append(links, m.opt.Fold.Head())
	}
	verified := false
	for _, l := range links {
		if l.Seq <= last.Seq {
			continue
		}
		// What is witnessed is the log, not this process's memory of it.
		if !verified && !m.verify(ctx) || m.opt.Alarm.Raised() != nil {
			return nil
		}
		verified = true
		l.Base = m.opt.Log.Base()
		n, err := chain.Append(ctx, at, l)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, streams.ErrWrongSequence) {
				m.log.Debug("the log's witness was not written; trying again", "error", err)
			}
			return err
		}
		l.At = n
		at, last = n, l
		m.opt.Witness.note(n, []streams.Link{l})
	}
	return nil
}

// Confirm appends a link where the fold stands, whoever's business that is, and returns the
// links that count then.
func (m *Monitor) Confirm(ctx context.Context) ([]streams.Link, error) {
	if err := m.append(ctx, true); err != nil && !errors.Is(err, streams.ErrWrongSequence) {
		return nil, err
	}
	if err := m.opt.Alarm.Raised(); err != nil {
		return nil, err
	}
	chain, _, _ := m.opt.Witness.end()
	links, _, err := chain.Links(ctx)
	return streams.EffectiveLinks(links), err
}

// Finish leaves a link where the fold stopped, so that a tail that goes missing
// while nothing runs is missed: each worker does, and those that follow find it
// there. Run must have returned, so nobody follows the witness any more: an entry
// that landed in the end, its acknowledgement lost with the stop, is read.
func (m *Monitor) Finish(ctx context.Context) {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for m.opt.Conn.Connected() && errors.Is(m.append(ctx, true), streams.ErrWrongSequence) {
		chain, _, _ := m.opt.Witness.end()
		links, at, err := chain.Links(ctx)
		if err != nil {
			return
		}
		effective := streams.EffectiveLinks(links)
		m.opt.Witness.note(at, effective)
		if err := m.opt.Fold.Witness(effective); err != nil {
			m.opt.Alarm.Raise(err)
			return
		}
	}
}
