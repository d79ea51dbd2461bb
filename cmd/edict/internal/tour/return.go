package tour

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// comeBack resumes the node that was away since before the changes.
func (t *tour) comeBack(ctx context.Context) error {
	n := t.world.nodes[t.world.traveller]
	want := map[uuid.UUID]bool{t.world.policies[revisedSlug].id: true, t.gone: true}
	began := time.Now()
	m := t.crowd.follow(ctx, t.group, n.ID, &t.left)
	err := t.crowd.await(ctx, "the node that came back has not caught up", func() bool { return len(m.events) >= len(want) })
	if err != nil {
		return err
	}
	took := time.Since(began)
	got := map[uuid.UUID]bool{}
	for _, r := range m.events {
		if r.event.Policy == nil {
			return fmt.Errorf("%w: node %s had to pull, though it missed two messages only", errDiffers, n.ID)
		}
		got[r.event.Policy.PolicyID] = true
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("%w: node %s missed changes of %v and got %v", errDiffers, n.ID, want, got)
	}
	t.tell("Node %s came back and resumed after event id %d: exactly the %s it had missed, in %s.", n.ID, t.left, cli.Counted(len(want), "message"), ms(took))
	return nil
}

// writesBeforeKill is how many writes are acknowledged before the process is
// killed in the middle of the next.
const writesBeforeKill = 50

// kill ends the process without a word while it is being written to, and
// starts it again.
func (t *tour) kill(ctx context.Context) error {
	var acknowledged atomic.Int64
	enough := make(chan struct{})
	written := make(chan []int, 1)
	go func() { written <- t.writeUntilGone(ctx, &acknowledged, enough) }()
	select {
	case <-enough:
	case <-written:
		return fmt.Errorf("writing ended after %d writes, before the process was killed: %w", acknowledged.Load(), cmp.Or(ctx.Err(), errDiffers))
	}
	if err := t.serve.kill(); err != nil {
		return err
	}
	touched := <-written
	sure := int(acknowledged.Load())
	took, err := t.serve.start(ctx)
	if err != nil {
		return err
	}
	if err := t.lookFor(ctx, touched, sure); err != nil {
		return err
	}
	if err := t.crowd.connected(ctx, 2); err != nil {
		return err
	}
	if err := t.conn.Settle(ctx); err != nil {
		return err
	}
	t.tell("The process was killed with SIGKILL in the middle of writing, and started again: it answered after %s.", ms(took))
	t.more("%s that it had acknowledged: none is missing; %s resumed by themselves.", cli.Counted(sure, "write"), cli.Counted(len(t.crowd.members), "event stream"))
	return nil
}

// patched are a node's labels with one that tells a write.
func patched(labels map[string]string) map[string]string {
	l := maps.Clone(labels)
	l["patched"] = "yes"
	return l
}

// writeUntilGone labels one node after the other until the plane is gone. It
// returns the nodes it tried; of the last nobody knows.
func (t *tour) writeUntilGone(ctx context.Context, acknowledged *atomic.Int64, enough chan<- struct{}) (touched []int) {
	for i, n := range t.world.nodes {
		if i == t.world.mover || i == t.world.traveller {
			continue
		}
		touched = append(touched, i)
		_, _, err := t.client.Nodes.Put(ctx, t.opt.Project, n.ID, resource.Facts{Labels: patched(n.Labels), Addresses: n.Addresses})
		if err != nil {
			return touched
		}
		if acknowledged.Add(1) == writesBeforeKill {
			close(enough)
		}
	}
	return touched
}

// lookFor reads back every node that was written to.
func (t *tour) lookFor(ctx context.Context, touched []int, sure int) error {
	lost := 0
	for k, i := range touched {
		n, err := t.client.Nodes.Get(ctx, t.opt.Project, t.world.nodes[i].ID)
		if err != nil {
			return err
		}
		if n.Labels["patched"] == "yes" {
			t.world.nodes[i].Labels = patched(t.world.nodes[i].Labels)
		} else if k < sure {
			lost++
		}
	}
	return check("acknowledged writes that were lost", 0, lost)
}

// goOn shows that the plane sends to its nodes as before.
func (t *tour) goOn(ctx context.Context) error {
	r, _, err := t.reviseWith(ctx, 9444)
	if err != nil {
		return err
	}
	t.tell("Policy %s was revised once more: sent to %s nodes, the last after %s (followed: %s).", revisedSlug, thousands(r.rows), ms(r.onNATS), ms(r.verified))
	return nil
}

// equalsState compares what a follower has with what the plane says it should.
func (t *tour) equalsState(ctx context.Context, id string) error {
	m := t.crowd.members[id]
	state, err := t.client.Nodes.State(ctx, id, client.StateQuery{})
	if err != nil {
		return err
	}
	want, err := stateFingerprint(state.Body)
	if err != nil {
		return err
	}
	if got := fingerprintText(m.follower.Merged()); got != want {
		return fmt.Errorf("%w: node %s holds rules with fingerprint %s, its state says %s", errDiffers, id, got, want)
	}
	return nil
}
