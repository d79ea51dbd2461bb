package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// ReporterOptions has a useful zero value.
type ReporterOptions struct {
	HTTP *http.Client  // nil: one of its own
	Wait time.Duration // how long changes are gathered into one report; 0 is 100 ms
	// Trouble is called with the reason when a report did not arrive, or was refused, and
	// with whether it is sent again; may be nil. Log gets both too.
	Trouble func(err error, again bool)
	Log     *slog.Logger
}

// Reporter reports to the plane what a node applied, or why it did not. Changes within a short time make
// one report. A report that does not arrive is sent again, or replaced by a newer one.
type Reporter struct {
	server string
	id     policy.NodeID
	url    string
	opt    ReporterOptions
	own    *http.Transport
	mu     sync.Mutex
	next   *policy.Report // to be sent; nil: nothing is
	wakeup chan struct{}  // of capacity 1: there may be something to send
}

// NewReporter makes a reporter for node id at a server such as
// http://127.0.0.1:8080. Run runs it.
func NewReporter(server string, id policy.NodeID, opt ReporterOptions) *Reporter {
	if opt.Wait <= 0 {
		opt.Wait = 100 * time.Millisecond
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Trouble == nil {
		opt.Trouble = func(error, bool) {}
	}
	r := &Reporter{server: server, id: id, url: strings.TrimRight(server, "/") + "/v1/nodes/" + string(id) + "/applied", opt: opt, wakeup: make(chan struct{}, 1)}
	if r.opt.HTTP == nil {
		r.own = newTransport(patience)
		r.opt.HTTP = &http.Client{Transport: r.own}
	}
	return r
}

// Report is what f has received, as a node reports it; ok is false until f has all
// rows. A node takes it before it puts the rules in force, so that it never says more
// than was in force, and sends it with [Reporter.Send]. What could not be put in force
// is a report of another outcome.
func (f *Follower) Report() (rep policy.Report, ok bool) {
	at := f.Position()
	if at == 0 {
		return rep, false
	}
	now := merged(f.rows.list()) // by which the plane judges, also where the block is resolved
	rep = policy.Report{Event: at, Fingerprint: now.Fingerprint}
	if now.Rules == nil {
		rep.Fingerprint = compiler.Empty.Fingerprint
	}
	return rep, true
}

// Applied reports that the node has applied everything that f has received. Call it
// where f's events are handled, after the rules are in force, and from Connected, so
// that a lost report is made again. Nothing is reported until f has all rows.
func (r *Reporter) Applied(f *Follower) {
	if rep, ok := f.Report(); ok {
		r.Send(rep)
	}
}

// Send reports what a node says, in place of what still waits to be sent.
func (r *Reporter) Send(rep policy.Report) {
	r.mu.Lock()
	r.next = &rep
	r.mu.Unlock()
	r.wake()
}

func (r *Reporter) wake() {
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// lastTry bounds the report that is sent when Run ends.
const lastTry = 2 * time.Second

// Run sends reports until ctx ends, and then the one that waits. The error is an
// *AddressError where the server's is none, or that of policy.ParseNodeID.
func (r *Reporter) Run(ctx context.Context) error {
	if _, err := policy.ParseNodeID(string(r.id)); err != nil {
		return fmt.Errorf("report for node %q: %w", r.id, err)
	}
	if err := checkAddress(r.server, r.own == nil); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if r.own != nil {
		defer r.own.CloseIdleConnections()
	}
	again := backoff.Backoff{Least: 200 * time.Millisecond, Most: 10 * time.Second}
	for {
		select {
		case <-r.wakeup:
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
			defer cancel()
			if err := r.send(ctx); err != nil {
				r.opt.Trouble(err, false) // nobody is left to try again
			}
			return nil
		}
		_ = backoff.Sleep(ctx, r.opt.Wait)
		err := r.send(ctx)
		if err == nil {
			again.Reset()
			continue
		}
		if ctx.Err() == nil {
			r.opt.Log.Info("a report did not arrive; sending it again", "error", err)
			r.opt.Trouble(err, true)
		}
		_ = again.Pause(ctx)
		r.wake()
	}
}

// send sends the newest report. After an error it can be sent again.
func (r *Reporter) send(ctx context.Context) error {
	r.mu.Lock()
	rep := r.next
	r.next = nil
	r.mu.Unlock()
	if rep == nil {
		return nil
	}
	err := r.post(ctx, *rep)
	var status *StatusError
	if errors.As(err, &status) && status.final() {
		r.opt.Log.Warn("the plane refused a report; it is not sent again", "event_id", rep.Event, "error", err)
		r.opt.Trouble(err, false)
		return nil
	}
	if err != nil {
		r.mu.Lock()
		if r.next == nil {
			r.next = rep
		}
		r.mu.Unlock()
	}
	return err
}

// patience bounds the sending of one report.
const patience = 15 * time.Second

func (r *Reporter) post(ctx context.Context, rep policy.Report) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(policy.AppendReport(nil, rep)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.opt.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return newStatusError(resp)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection is kept
	return nil
}
