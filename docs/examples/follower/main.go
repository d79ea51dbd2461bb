// Command follower shows how a program follows what Edict tells a node, with
// nothing but a NATS client and RFC 8785: it verifies every message, heals what
// was lost, and prints what the node holds as it changes. See
// docs/nodes-on-nats.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "the plane's NATS address")
	node := flag.String("node", "web-1", "the node to follow")
	creds := flag.String("creds", "", "credentials file, where the plane asks for one")
	trusted := flag.String("keys", "keys.json", "what the plane showed at /v1/keys when the node was set up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	doc, err := os.ReadFile(*trusted)
	if err == nil {
		err = run(ctx, *url, *creds, *node, doc, func(policy string, r row) { fmt.Println(r.id, policy, string(r.rules)) })
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "follower:", err)
		os.Exit(1)
	}
}

// run follows a node until ctx ends. changed hears every row that changed.
func run(ctx context.Context, url, creds, node string, trusted []byte, changed func(policy string, r row)) error {
	f := &follower{node: node, changed: changed, rows: map[string]row{}}
	var err error
	if f.keys, err = parseKeys(trusted); err != nil {
		return err
	}
	ask := make(chan struct{}, 1) // something may have been lost
	hint := func() {
		select {
		case ask <- struct{}{}:
		default:
		}
	}
	options := []nats.Option{
		nats.MaxReconnects(-1), nats.CustomInboxPrefix("_INBOX." + node), // where nodes are kept apart
		nats.ReconnectHandler(func(*nats.Conn) { hint() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			fmt.Fprintln(os.Stderr, "follower:", err)
			hint() // above all nats.ErrSlowConsumer: messages were dropped
		}),
	}
	if creds != "" {
		options = append(options, nats.UserCredentials(creds))
	}
	if f.nc, err = nats.Connect(url, options...); err != nil {
		return err
	}
	defer f.nc.Close()
	live := make(chan *nats.Msg, 1024)
	if _, err := f.nc.ChanSubscribe("edict.node."+node+".>", live); err != nil {
		return err
	}
	hint() // and so there is a question on connect, after the subscription
	wait := pause(leastPause)
	for tick := time.NewTicker(30 * time.Second); ; {
		select {
		case <-ctx.Done():
			return nil
		case m := <-live:
			if !f.hear(m) {
				hint()
			}
			continue
		case <-ask:
		case <-tick.C:
		}
		err := f.ask(ctx)
		switch {
		case err == nil:
			wait = leastPause
		case errors.Is(err, errBehind), errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
			time.AfterFunc(wait.next(), hint) // another worker may answer, or this one later
		case ctx.Err() == nil:
			return err
		}
	}
}

// pause is before the next question. It grows, and no two nodes have the same, so that a
// plane that is back is not asked by all at once.
type pause time.Duration

const (
	leastPause = pause(100 * time.Millisecond)
	mostPause  = pause(10 * time.Second)
)

// next is between half of the pause and all of it.
func (p *pause) next() time.Duration {
	half := *p / 2
	*p = min(*p*2, mostPause)
	return time.Duration(half + rand.N(half+1))
}

// row is what one policy says to the node: under which id, and the rules, of
// which there are none when it says nothing.
type row struct {
	id          uint64
	fingerprint string
	rules       json.RawMessage
}

// follower is the state of a client. It acts on ids in rising order.
type follower struct {
	nc        *nats.Conn
	node      string
	keys      keys
	changed   func(policy string, r row)
	rows      map[string]row // by policy
	confirmed uint64         // nothing up to here is missing: what answers said
	acted     uint64         // the highest id acted upon
	log       string         // the log that the last answer was about
	base      uint64         // and what its ids count from
}
