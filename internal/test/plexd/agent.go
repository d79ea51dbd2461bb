// Package plexd is a node's agent as a plane meets it in the field, written
// from the description of that agent alone and from the standard library, so
// that it shares no reading of the contract with the plane that it tests. It
// registers, follows its event stream, pulls its state, applies rules to a
// table in memory, and reports, in either of the two dialects, with the agent's
// own habits: a timeout that cuts its stream, a cursor that a restart forgets,
// lines of at most 64 KiB, and what it makes of each status.
package plexd

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Dialect is one of the two ways in which agents speak.
type Dialect string

// The dialects: of agents as they are now, and of the last ones before.
const (
	Current Dialect = "C"
	Legacy  Dialect = "L"
)

// Options say what an agent is. Base and either Identity, Registration or a
// DataDir that holds an identity are needed.
type Options struct {
	Base    func() string // where the plane is now: http://host:port
	Dialect Dialect       // Current when empty

	// An identity that is known is used as it is; else one that DataDir holds;
	// else the agent registers, and keeps what it is given in DataDir.
	Identity     *Identity
	DataDir      string // empty: nothing outlives the agent
	Registration Registration

	// Handlers has an agent of the legacy dialect pull when it hears of policies
	// and state. As it is installed it does not: only its clock and heartbeats
	// make it pull.
	Handlers bool
	// Terse leaves out what an agent can live without: capabilities, endpoint,
	// metrics, logs and audit.
	Terse bool

	Periods   Periods
	Transport http.RoundTripper // nil: one of its own
	Now       func() time.Time  // nil: time.Now

	// These are called from the goroutine of the stream, one after the other.
	Connected  func(lastEventID string)
	Dispatched func(Event)
	Refused    func(id string, why error) // an event that is skipped
}

// Periods are the agent's times. What is zero is as in the field.
type Periods struct {
	Timeout    time.Duration // of a request with its answer: 30 s
	Stream     time.Duration // of the stream; as Timeout, which it is in the field
	Idle       time.Duration // after which a silent stream counts as broken: 90 s
	Heartbeat  time.Duration // 30 s
	Pull       time.Duration // 60 s
	Report     time.Duration // metrics, logs and audit: 60 s
	BackoffMin time.Duration // 1 s
	BackoffMax time.Duration // 60 s
	Poll       time.Duration // of failures, after which it stops to hope for the stream: 5 min
	Reprobe    time.Duration // of a plane without streams: 10 min
}

func (p Periods) withDefaults() Periods {
	for at, d := range map[*time.Duration]time.Duration{
		&p.Timeout: 30 * time.Second, &p.Idle: 90 * time.Second, &p.Heartbeat: 30 * time.Second, &p.Pull: time.Minute,
		&p.Report: time.Minute, &p.BackoffMin: time.Second, &p.BackoffMax: time.Minute, &p.Poll: 5 * time.Minute, &p.Reprobe: 10 * time.Minute,
	} {
		if *at == 0 {
			*at = d
		}
	}
	if p.Stream == 0 {
		p.Stream = p.Timeout
	}
	return p
}

// Agent is one node's agent. Run it once.
type Agent struct {
	opt       Options
	client    *http.Client // of everything but the stream
	streams   *http.Client
	owned     *http.Transport // nil: it is somebody else's
	book      book
	trust     *trust
	wanted    chan struct{} // a pull is wanted; one signal stands for many
	cursor    string        // of the stream's goroutine
	mu        sync.Mutex
	identity  Identity
	last      *snapshot // reconciled last
	installed Applied
}

// New makes an agent that does nothing yet.
func New(opt Options) (*Agent, error) {
	if opt.Base == nil {
		return nil, errors.New("plexd: Base says where the plane is")
	}
	if opt.Dialect == "" {
		opt.Dialect = Current
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Periods = opt.Periods.withDefaults()
	a := &Agent{opt: opt, wanted: make(chan struct{}, 1)}
	if opt.Transport == nil {
		a.owned = http.DefaultTransport.(*http.Transport).Clone()
		opt.Transport = a.owned
	}
	a.client = &http.Client{Transport: opt.Transport, Timeout: opt.Periods.Timeout}
	a.streams = &http.Client{Transport: opt.Transport, Timeout: opt.Periods.Stream}
	return a, nil
}

// Run lives until ctx ends, and then returns nil. An error is a registration
// that was refused or an answer to it that the agent cannot start with.
func (a *Agent) Run(ctx context.Context) error {
	if a.owned != nil {
		defer a.owned.CloseIdleConnections()
	}
	if err := a.enter(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	id := a.Identity()
	trust, err := newTrust(a.opt.Dialect, id.SigningKeyID, id.SigningPublicKey)
	if err != nil {
		return err
	}
	a.trust = trust
	if a.opt.Dialect == Current {
		a.install(nil, []FirewallRule{denyAll}) // nothing passes before the first pull
		if !a.opt.Terse {
			a.report(ctx, http.MethodPut, "capabilities", capabilities())
		}
	}
	var loops sync.WaitGroup
	loops.Go(func() { a.follow(ctx) })
	loops.Go(func() { a.reconcile(ctx) })
	loops.Go(func() { a.beat(ctx) })
	if a.opt.Dialect == Current && !a.opt.Terse {
		loops.Go(func() { a.observe(ctx) })
	}
	loops.Wait()
	return nil
}

// Identity is what the agent is known by; empty before it has entered.
func (a *Agent) Identity() Identity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.identity
}

// pullSoon asks for a pull. A pull that is asked for and has not begun serves.
func (a *Agent) pullSoon() {
	select {
	case a.wanted <- struct{}{}:
	default:
	}
}

// backoff doubles a pause from BackoffMin to BackoffMax, and varies it by a
// quarter either way.
type backoff struct {
	Periods
	next time.Duration
}

func (b *backoff) reset() { b.next = 0 }

func (b *backoff) pause() time.Duration {
	b.next = min(max(2*b.next, b.BackoffMin), b.BackoffMax)
	return time.Duration((0.75 + rand.Float64()/2) * float64(b.next))
}

// rest waits; false: ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
