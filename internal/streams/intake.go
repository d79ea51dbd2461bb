package streams

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/wire"
)

// prefixIntake is what the log's subjects begin with where guests publish to them.
const prefixIntake = "edict.intake."

const (
	// A project of producers has so many messages on their way to the log at once. The server
	// syncs one after the other, so this is how many a write of somebody else waits for.
	intakeStrict = ofOneProject
	// While other projects write, too, it has so many, and pauses for as long as they take: so it
	// leaves the others half of the log's time. A timer may take a millisecond longer than it
	// should, so no pause is shorter; and none is as long as a write that a disk holds up.
	intakeBeside   = 1
	intakePause    = time.Millisecond
	intakePauseMax = 10 * time.Millisecond
	// Where it does not sync, none takes long.
	intakeRelaxed = 64
	// As many messages of a project wait as so many of the largest batches have, and so many
	// bytes of them. What comes beyond it is refused.
	intakeBatches = 2
	intakeBytes   = 64 << 20
	// intakeAll bounds the bytes of all projects. Beyond it each has a small part.
	intakeAll   = 512 << 20
	intakeLeast = 1 << 20
	// A message whose answer does not come for so long is given up: its server could not
	// write, and says so to nobody.
	intakePatience = 10 * time.Second
)

// intake takes what guests append to the log, and passes it on: of each project in the
// order in which it came, and a few at a time. The server itself would take a quarter of a
// million messages of whoever is fast, and have everybody else wait until each is synced.
type intake struct {
	nc      *nats.Conn
	answer  string // prefix of where answers to us come
	most    int    // messages of a project on their way
	beside  int    // while others write, too
	waiting int    // messages of a project that wait
	batch   int    // messages of a batch
	writing *writing
	stop    chan struct{}
	once    sync.Once // stopping

	// least is the shortest pause, and after calls f when d is over. Tests have it wait for them.
	least time.Duration
	after func(d time.Duration, f func())

	// overflow hears of each message that a project had no room for.
	overflow atomic.Pointer[func(project uuid.UUID)]

	mu    sync.Mutex
	lanes map[string]*lane // by project
	bytes int              // that wait, of all
	open  int              // batches, of all
	n     uint64           // messages that were passed on
	asked map[uint64]passed
}

// lane is what a project appends.
type lane struct {
	name    string
	project uuid.UUID
	waiting []*nats.Msg
	bytes   int
	under   int           // on their way
	owed    time.Duration // of pauses
	open    map[string]*openBatch
}

// passed is a message on its way.
type passed struct {
	lane  *lane // nil: it does not count
	reply string
	at    time.Time
}

func startIntake(s *Server) (*intake, error) {
	in := &intake{
		most: intakeStrict, beside: intakeBeside, batch: cmp.Or(s.opt.maxBatch, embeddedMaxBatch),
		writing: &s.writing, stop: make(chan struct{}), lanes: map[string]*lane{}, asked: map[uint64]passed{},
		least: intakePause, after: func(d time.Duration, f func()) { time.AfterFunc(d, f) },
	}
	in.waiting = intakeBatches * in.batch
	if s.opt.Relaxed {
		in.most, in.beside = intakeRelaxed, intakeRelaxed
	}
	var err error
	in.nc, err = nats.Connect("", nats.InProcessServer(s), nats.Token(s.secret), nats.Name("edict takes what producers append"),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { in.giveUp(time.Now()) }),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // of a client that cannot keep up: what is lost is not acknowledged
	if err != nil {
		return nil, fmt.Errorf("embedded server: take what producers append: %w", err)
	}
	in.answer = in.nc.NewInbox() + "."
	_, err1 := in.nc.Subscribe(in.answer+"*", in.answered)
	_, err2 := in.nc.Subscribe(prefixIntake+">", in.take)
	if err := errors.Join(err1, err2, in.nc.Flush()); err != nil {
		in.nc.Close()
		return nil, fmt.Errorf("embedded server: take what producers append: %w", err)
	}
	go in.sweep()
	return in, nil
}

func (in *intake) close() {
	in.once.Do(func() { close(in.stop) })
	in.nc.Close()
}

// weight is what a message that waits takes.
func weight(m *nats.Msg) int { return m.Size() + 256 }

// take has a message wait for its turn, or refuses it.
func (in *intake) take(m *nats.Msg) {
	project, _, _ := strings.Cut(m.Subject[len(prefixIntake):], ".")
	in.mu.Lock()
	defer in.mu.Unlock()
	l := in.lanes[project]
	if l == nil {
		id, _ := uuid.Parse(project) // whatever is none is one project
		l = &lane{name: project, project: id, open: map[string]*openBatch{}}
		in.lanes[project] = l
	}
	size := weight(m)
	most := intakeBytes
	if in.bytes > intakeAll {
		most = intakeLeast
	}
	if len(l.waiting) >= in.waiting || l.bytes > 0 && l.bytes+size > most {
		in.refuse(l, m, apiError{http.StatusTooManyRequests, codeTooManyRequests, "more events under way than are taken: wait for acknowledgements"})
		return
	}
	l.waiting = append(l.waiting, m)
	l.bytes += size
	in.bytes += size
	in.pass(l)
}

// refuse answers as the server does when it cannot take more.
func (in *intake) refuse(l *lane, m *nats.Msg, why apiError) {
	if f := in.overflow.Load(); f != nil && l.project != uuid.Nil {
		(*f)(l.project)
	}
	if m.Reply != "" {
		_ = in.nc.Publish(m.Reply, fmt.Appendf(nil, `{"type":"io.nats.jetstream.api.v1.pub_ack_response","error":{"code":%d,"err_code":%d,"description":"project %s has %s, then send it again"},"stream":%q,"seq":0}`,
			why.Code, why.ErrCode, l.name, why.Description, LogStream))
	}
}

// pass passes on what may go. Between the first message of a batch and its commit the server
// writes nothing, so those messages wait for nobody.
func (in *intake) pass(l *lane) {
	for now := time.Now(); len(l.waiting) > 0; {
		m := l.waiting[0]
		step, batch := l.step(m)
		if step != batchGoesOn && l.under >= in.mayPass(now) {
			return
		}
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		size := weight(m)
		l.bytes -= size
		in.bytes -= size
		in.writing.asks(l.project, now)
		if in.admit(l, m, step, batch, now) {
			in.append(l, m, step == batchGoesOn, now)
		}
	}
	in.leave(l)
}

// leave forgets a project that has nothing here any more.
func (in *intake) leave(l *lane) {
	if l.under == 0 && len(l.waiting) == 0 && len(l.open) == 0 {
		delete(in.lanes, l.name)
	}
}

// mayPass is how many messages of a project may be on their way.
func (in *intake) mayPass(now time.Time) int {
	if in.writing.several(now) {
		return in.beside
	}
	return in.most
}

// append sends a message to the log.
func (in *intake) append(l *lane, m *nats.Msg, within bool, now time.Time) {
	out := &nats.Msg{Subject: wire.PrefixLog + m.Subject[len(prefixIntake):], Header: m.Header, Data: m.Data}
	if !within || m.Reply != "" {
		in.n++
		p := passed{reply: m.Reply, at: now}
		if !within {
			p.lane = l
			l.under++
		}
		in.asked[in.n] = p
		out.Reply = in.answer + strconv.FormatUint(in.n, 36)
	}
	if in.nc.PublishMsg(out) != nil && out.Reply != "" { // the server went: what is lost is not acknowledged
		if delete(in.asked, in.n); !within {
			l.under--
		}
	}
}

// answered passes an acknowledgement back.
func (in *intake) answered(m *nats.Msg) {
	n, err := strconv.ParseUint(m.Subject[len(in.answer):], 36, 64)
	if err != nil {
		return
	}
	if p, known := in.done(n); known && p.reply != "" {
		_ = in.nc.PublishMsg(&nats.Msg{Subject: p.reply, Header: m.Header, Data: m.Data})
	}
}

func (in *intake) done(n uint64) (p passed, known bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if p, known = in.asked[n]; !known {
		return p, false
	}
	delete(in.asked, n)
	l := p.lane
	if l == nil {
		return p, true
	}
	if l.owed = min(l.owed+time.Since(p.at), intakePauseMax); l.owed >= in.least && in.writing.several(time.Now()) {
		pause := l.owed
		l.owed = 0
		in.after(pause, func() {
			in.mu.Lock()
			defer in.mu.Unlock()
			in.next(l)
		})
		return p, true
	}
	in.next(l)
	return p, true
}

// next has the place of a message that was answered be another's.
func (in *intake) next(l *lane) {
	l.under--
	in.pass(l)
}

// sweep gives up what is not answered.
func (in *intake) sweep() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-in.stop:
			return
		case now := <-tick.C:
			in.giveUp(now.Add(-intakePatience))
		}
	}
}

// giveUp lets others pass in the place of what was passed on before a time.
func (in *intake) giveUp(before time.Time) {
	in.mu.Lock()
	var late []uint64
	for n, p := range in.asked {
		if p.at.Before(before) {
			late = append(late, n)
		}
	}
	for _, l := range in.lanes {
		in.giveUpBatches(l, before)
		in.leave(l)
	}
	in.mu.Unlock()
	for _, n := range late {
		in.done(n)
	}
}

// discard drops what a project has waiting.
func (in *intake) discard(project uuid.UUID) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if l := in.lanes[project.String()]; l != nil {
		in.bytes -= l.bytes
		l.waiting, l.bytes = nil, 0
		in.pass(l)
	}
}

// OnOverflow has f called for each message of a guest that its project had no room for.
func (s *Server) OnOverflow(f func(project uuid.UUID)) {
	if s.intake != nil {
		s.intake.overflow.Store(&f)
	}
}

// Discard drops what the guests of a project sent, and the log did not take yet.
func (s *Server) Discard(project uuid.UUID) {
	if s.intake != nil {
		s.intake.discard(project)
	}
}
