// Command gateway joins two planes: it forwards the events of chosen projects from the
// log of one to that of another, with nothing but a NATS client. Ids, bodies and
// order stay, so the second plane comes to the same policies and nodes of these
// projects by its own fold. It may be cut off anywhere and begun again.
// See docs/scale.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	from := flag.String("from", nats.DefaultURL, "NATS address of the plane that has the projects")
	to := flag.String("to", "", "NATS address of the plane that gets them")
	fromCreds := flag.String("from-creds", "", "file of credentials there: who may read the log")
	toCreds := flag.String("to-creds", "", "file of credentials here: a producer of these projects")
	principal := flag.String("to-principal", "", "who that is; with credentials")
	projects := flag.String("projects", "00000000-0000-4000-8000-000000000000", "projects, comma separated")
	state := flag.String("state", "gateway.json", "file that keeps how far it has come")
	once := flag.Bool("once", false, "end at the log's head")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g := gateway{projects: strings.Split(*projects, ","), principal: *principal, state: *state, once: *once}
	err := g.connect(*from, *fromCreds, *to, *toCreds)
	if err == nil {
		err = g.run(ctx)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// gateway forwards from one log to another.
type gateway struct {
	from, to  jetstream.JetStream
	projects  []string
	principal string // who appends to the other log; empty: it asks nobody who they are
	state     string
	once      bool
	forwarded int
}

func (g *gateway) connect(from, fromCreds, to, toCreds string) (err error) {
	open := func(url, creds, principal string) (jetstream.JetStream, error) {
		opts := []nats.Option{nats.Name("gateway example"), nats.MaxReconnects(-1)}
		if principal != "" { // a producer hears acknowledgements nowhere else
			opts = append(opts, nats.CustomInboxPrefix("_INBOX."+principal))
		}
		if creds != "" {
			opts = append(opts, nats.UserCredentials(creds))
		}
		nc, err := nats.Connect(url, opts...)
		if err != nil {
			return nil, err
		}
		return jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(window))
	}
	if g.from, err = open(from, fromCreds, ""); err != nil {
		return err
	}
	g.to, err = open(to, toCreds, g.principal)
	return err
}

// window is how many events are forwarded before their acknowledgements are waited for
// and the position is kept. After a cut as many are forwarded twice at most.
const window = 256

// fetchFor is how long a batch is waited for that is not full: what has come is forwarded
// meanwhile, and its position kept then.
const fetchFor = 250 * time.Millisecond

// position is how far a gateway has come in a log. Another log is another plane's, or
// one that was made anew: its sequences mean nothing here.
type position struct {
	Log string `json:"log"` // when it was made
	Seq uint64 `json:"seq"` // all events up to it are in the other log
}

// run forwards until ctx ends, or with once until the head.
func (g *gateway) run(ctx context.Context) error {
	stream, err := g.from.Stream(ctx, "EDICT_LOG")
	if err != nil {
		return fmt.Errorf("the log to read: %w", err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("the log to read: %w", err)
	}
	at, err := g.begin(info.Created.UTC().String())
	if err != nil {
		return err
	}
	subjects := make([]string, len(g.projects))
	for i, p := range g.projects {
		subjects[i] = "edict.log." + p + ".>"
	}
	events, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: subjects, OptStartSeq: at.Seq + 1, DeliverPolicy: jetstream.DeliverByStartSequencePolicy})
	if err != nil {
		return fmt.Errorf("the log to read: %w", err)
	}
	for {
		batch, err := events.Fetch(window, jetstream.FetchMaxWait(fetchFor))
		if err != nil {
			return err
		}
		n, err := g.forward(ctx, batch, &at)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if n == 0 && g.once {
			left, err := events.Info(ctx)
			if err != nil || left.NumPending == 0 {
				return err
			}
		}
	}
}

// forward appends a batch to the other log, and keeps the position once all of it is
// there. An event waits until those before it on its subject are acknowledged: if one
// were lost and a later one not, sending both again would end with the earlier.
func (g *gateway) forward(ctx context.Context, batch jetstream.MessageBatch, at *position) (n int, err error) {
	last := at.Seq
	flight := map[string]jetstream.PubAckFuture{} // by subject
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return 0, err
		}
		if flight[m.Subject()] != nil {
			if err := land(ctx, flight); err != nil {
				return 0, err
			}
		}
		ack, err := g.to.PublishMsgAsync(&nats.Msg{Subject: m.Subject(), Header: carried(m.Headers()), Data: m.Data()})
		if err != nil {
			return 0, fmt.Errorf("event %d: %w", meta.Sequence.Stream, err)
		}
		flight[m.Subject()], last = ack, meta.Sequence.Stream
		n++
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		return 0, err
	}
	if err := land(ctx, flight); err != nil || n == 0 {
		return 0, err
	}
	at.Seq = last
	g.forwarded += n
	return n, g.keep(*at)
}

// land waits until all in flight are acknowledged.
func land(ctx context.Context, flight map[string]jetstream.PubAckFuture) error {
	for subject, ack := range flight {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return fmt.Errorf("the other log took no event on %s: %w", subject, err)
		case <-ctx.Done():
			return ctx.Err()
		}
		delete(flight, subject)
	}
	return nil
}

// carried are the headers of an event that go with it. Those of the server that had it,
// such as what it expected of the stream, are about the other log. Nats-Msg-Id is left out
// too: a window of ids costs the server more than a repeat costs the fold, which counts an
// id once.
func carried(h nats.Header) nats.Header {
	out := nats.Header{}
	for name, values := range h {
		if !strings.HasPrefix(name, "Nats-") {
			out[name] = values
		}
	}
	return out
}

// begin is where an earlier run came to; the beginning, if there was none.
func (g *gateway) begin(log string) (at position, err error) {
	text, err := os.ReadFile(g.state)
	if errors.Is(err, os.ErrNotExist) {
		return position{Log: log}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err == nil && at.Log != log {
		err = fmt.Errorf("%s is about the log of %s, and this one was made %s: remove the file to forward all of it", g.state, at.Log, log)
	}
	return at, err
}

// keep writes the position, whole or not at all.
func (g *gateway) keep(at position) error {
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(g.state), "."+filepath.Base(g.state)+".new")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, g.state)
}
