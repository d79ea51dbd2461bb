package tour

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// start brings a plane up.
func (t *tour) start(ctx context.Context) (err error) {
	if t.world, err = newWorld(t.opt.Nodes); err != nil {
		return err
	}
	t.serve = newServe(t.opt.Binary, t.dir)
	took, err := t.serve.start(ctx)
	if err != nil {
		return err
	}
	t.tell("A plane was started: one process, its log on an embedded NATS server. It answered after %s.", ms(took))
	t.client, err = client.New("http://"+t.serve.http, client.Options{Principal: "demo"})
	return err
}

// open connects what listens to the plane from outside.
func (t *tour) open(ctx context.Context, g *errgroup.Group) error {
	conn, err := streams.Connect(ctx, streams.ConnectOptions{URL: "nats://" + t.serve.nats, Name: "edict demo"})
	if err != nil {
		return err
	}
	t.conn = conn
	t.tap = newTap()
	stop, err := conn.Hear(wire.PrefixNode+">", t.tap.take)
	if err != nil {
		conn.Close()
		return err
	}
	g.Go(func() error {
		defer conn.Close()
		<-ctx.Done()
		stop()
		return nil
	})
	if t.log, err = streams.OpenLog(ctx, conn, streams.LogOptions{}); err != nil {
		return err
	}
	t.crowd = newCrowd(t.client.Server(), t.log.Base())
	t.group = g
	return conn.Settle(ctx)
}

// publish writes the shipped policies.
func (t *tour) publish(ctx context.Context) error {
	began := time.Now()
	results, err := author.Apply(ctx, t.client.Policies, t.opt.Project, t.world.drafts, func() {})
	if err != nil {
		return err
	}
	rules := 0
	for i, r := range results {
		if r.Err != nil {
			return fmt.Errorf("policy %s: %w", t.world.drafts[i].Slug, r.Err)
		}
		if err := t.world.published(r.Policy, t.world.drafts[i].Selector); err != nil {
			return err
		}
		rules += len(t.world.drafts[i].Rules)
	}
	t.tell("%s with %s were published in %s.", cli.Counted(len(results), "policy"), cli.Counted(rules, "rule"), ms(time.Since(began)))
	return nil
}

// register imports the machines and waits until each has its rows.
func (t *tour) register(ctx context.Context) error {
	before, err := t.cost(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	result, err := t.client.Nodes.Import(ctx, t.opt.Project, bytes.NewReader(t.world.lines()))
	if err != nil {
		return err
	}
	imported := time.Since(began)
	if err := check("nodes imported", len(t.world.nodes), result.Applied); err != nil {
		return err
	}
	want := t.world.rows()
	err = t.tap.await(ctx, "not every node was sent its rows", func() bool { return len(t.tap.rows) >= len(want) })
	if err != nil {
		return err
	}
	sent := time.Since(began)
	after, err := t.cost(ctx)
	if err != nil {
		return err
	}
	extra, missing := t.tap.differences(want)
	if err := check("rows sent that no node should have, or that are missing", 0, extra+missing); err != nil {
		return err
	}
	status, err := t.client.Status(ctx, false)
	if err != nil {
		return err
	}
	sets, _ := t.world.labelSets(func(policy.Labels) bool { return true })
	if err := check("label sets", sets, status.Identities); err != nil {
		return err
	}
	t.tell("%s nodes were registered in %s. They have %d label sets; selectors meet those, not the nodes.", thousands(result.Applied), ms(imported), sets)
	t.more("%s announcements on NATS, one for each node and policy, each signed: the last was heard %s after the first node was sent.",
		thousands(t.tap.messages()), ms(sent))
	const mib = 1 << 20
	t.more("That took %.1f s of CPU in the plane, which holds %.0f MiB of memory. None of it is stored: NATS has %.1f MiB on disk, for the log.",
		after.cpu-before.cpu, after.resident/mib, float64(after.disk)/mib)
	return nil
}

// followed is about how many nodes are followed to the end of the tour.
const followed = 200

// follow plays the agents of some nodes.
func (t *tour) follow(ctx context.Context) error {
	step := max(1, len(t.world.nodes)/followed)
	for i, n := range t.world.nodes {
		if (i%step == 0 || i == t.world.mover) && i != t.world.traveller {
			t.crowd.follow(ctx, t.group, n.ID, nil)
		}
	}
	if err := t.crowd.connected(ctx, 1); err != nil {
		return err
	}
	state, err := t.client.Nodes.State(ctx, t.world.nodes[t.world.traveller].ID, client.StateQuery{})
	if err != nil {
		return err
	}
	t.left = state.EventID
	t.tell("The agents of %s follow their event streams and verify every signature. Another, %s, just went away.",
		cli.Counted(len(t.crowd.members), "node"), t.world.nodes[t.world.traveller].ID)
	return nil
}
