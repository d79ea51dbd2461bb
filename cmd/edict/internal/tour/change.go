package tour

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/policy"
)

// What the tour changes: a policy of many nodes, one of all kinds of nodes,
// and a web machine that becomes a database.
const (
	revisedSlug = "shop-web-to-app"
	removedSlug = "monitoring-scrape"
)

// head is the log's last sequence: nobody else writes, so it is that of the
// change just made.
func (t *tour) head(ctx context.Context) (uint64, error) {
	s, err := t.client.Status(ctx, false)
	return s.Head, err
}

// announced is how the plane announced one event to its nodes.
type announced struct {
	rows, followed   int
	onNATS, verified time.Duration // until the last, since the change was asked for
}

// announced waits until the plane has sent exactly the rows that the event at a log
// sequence must change, and those of their nodes that are followed have it.
func (t *tour) announced(ctx context.Context, seq uint64, want map[pair]bool, began time.Time) (r announced, err error) {
	err = t.tap.await(ctx, fmt.Sprintf("event %d was not sent to all", seq), func() bool {
		return t.tap.tallies[seq] != nil && len(t.tap.tallies[seq].rows) >= len(want)
	})
	if err != nil {
		return r, err
	}
	rows, last := t.tap.tally(seq)
	if !maps.Equal(rows, want) {
		return r, fmt.Errorf("%w: event %d must change %d rows, others were sent (%d)", errDiffers, seq, len(want), len(rows))
	}
	var heard time.Time
	if r.followed, heard, err = t.crowd.heard(ctx, seq, perNode(want)); err != nil {
		return r, err
	}
	r.rows, r.onNATS = len(rows), last.Sub(began)
	if r.followed > 0 {
		r.verified = heard.Sub(began)
	}
	t.shown(seq, want)
	return r, nil
}

// shown notes a change for the end of the tour.
func (t *tour) shown(seq uint64, rows map[pair]bool) { t.causes = append(t.causes, cause{seq, rows}) }

// perNode counts the rows of each node.
func perNode(rows map[pair]bool) map[string]int {
	n := map[string]int{}
	for r := range rows {
		n[r.node]++
	}
	return n
}

// pairs makes pairs of nodes with one policy.
func pairs(nodes []string, id uuid.UUID) map[pair]bool {
	all := make(map[pair]bool, len(nodes))
	for _, n := range nodes {
		all[pair{n, id}] = true
	}
	return all
}

// reviseWith publishes a revision of the policy with one rule more.
func (t *tour) reviseWith(ctx context.Context, port uint16) (r announced, answered time.Duration, err error) {
	d := t.world.draft(revisedSlug)
	rules := append(slices.Clone(d.Rules), resource.Rule{
		Action: "allow", Protocol: "tcp", SourceCIDR: "10.16.0.0/15", DestinationCIDR: "10.16.0.0/15",
		Ports: &resource.Ports{From: port, To: port},
	})
	p := t.world.policies[revisedSlug]
	began := time.Now()
	if _, err := t.client.Policies.Revise(ctx, t.opt.Project, p.id, resource.Patch{Rules: rules}); err != nil {
		return r, 0, err
	}
	answered = time.Since(began)
	seq, err := t.head(ctx)
	if err != nil {
		return r, 0, err
	}
	r, err = t.announced(ctx, seq, pairs(t.world.matched(revisedSlug), p.id), began)
	return r, answered, err
}

// revise publishes a revision.
func (t *tour) revise(ctx context.Context) error {
	r, answered, err := t.reviseWith(ctx, 9443)
	if err != nil {
		return err
	}
	sets, _ := t.world.labelSets(t.world.policies[revisedSlug].selector.Matches)
	t.tell("Policy %s was revised: compiled once, for %d label sets; sent to %s nodes and to no other. Acknowledged after %s,",
		revisedSlug, sets, thousands(r.rows), ms(answered))
	t.more("the last node's message was on NATS after %s, the last of the %d followed had verified it after %s.",
		ms(r.onNATS), r.followed, ms(r.verified))
	return nil
}

// relabel gives one node other labels.
func (t *tour) relabel(ctx context.Context) error {
	n := &t.world.nodes[t.world.mover]
	before := t.world.rowsOf(*n)
	changed := maps.Clone(n.Labels)
	changed["role"], changed["team"] = "db", "data"
	n.Labels = changed
	after := t.world.rowsOf(*n)
	want, gained, lost := map[pair]bool{}, 0, 0
	for id := range after {
		if !before[id] {
			want[pair{n.ID, id}] = true
			gained++
		}
	}
	for id := range before {
		if !after[id] {
			want[pair{n.ID, id}] = true
			lost++
		}
	}
	began := time.Now()
	put, _, err := t.client.Nodes.Put(ctx, t.opt.Project, n.ID, resource.Facts{Labels: n.Labels, Addresses: n.Addresses})
	if err != nil {
		return err
	}
	r, err := t.announced(ctx, put.Version, want, began)
	if err != nil {
		return err
	}
	if err := t.equalsState(ctx, n.ID); err != nil {
		return err
	}
	t.tell("Node %s became a database: %s came, %d went, %d stayed and were not sent again.", n.ID, cli.Counted(gained, "policy"), lost, len(after)-gained)
	t.more("It had all of it, verified, after %s; nobody else heard of it.", ms(r.verified))
	return nil
}

// remove deletes a policy.
func (t *tour) remove(ctx context.Context) error {
	p := t.world.policies[removedSlug]
	nodes := t.world.matched(removedSlug)
	sets, _ := t.world.labelSets(func(l policy.Labels) bool { return p.selector.Matches(l) })
	began := time.Now()
	if err := t.client.Policies.Delete(ctx, t.opt.Project, p.id); err != nil {
		return err
	}
	seq, err := t.head(ctx)
	if err != nil {
		return err
	}
	delete(t.world.policies, removedSlug)
	r, err := t.announced(ctx, seq, pairs(nodes, p.id), began)
	if err != nil {
		return err
	}
	t.gone = p.id
	t.tell("Policy %s was deleted: %s nodes of %d label sets were sent that its rules are gone, the last after %s (followed: %s).",
		removedSlug, thousands(r.rows), sets, ms(r.onNATS), ms(r.verified))
	return nil
}
