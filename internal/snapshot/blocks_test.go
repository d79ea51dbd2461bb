package snapshot

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// A whole fleet that asks for its states at once gets them, although few may wait for
// tables.
func TestAFleetGetsItsBlocksAtOnce(t *testing.T) {
	const nodes = 60
	w := newTown(t)
	r := policy.Revision{ID: uuid.New(), Selector: wallsOf(0).Selector, Order: policy.Order{Tier: policy.Admin}, Rules: wallsOf(40).Rules}
	w.fold(policy.RevisionCreated{ID: uuid.New(), Project: uuid.UUID{1}, Policy: uuid.New(), Slug: "walls", DisplayName: "walls", Revision: r})
	for i := range nodes {
		w.node(1, fmt.Sprint("n", i), fmt.Sprintf("10.0.0.%d", i))
	}
	for what, of := range map[string]func(i int) string{
		"each for its own": func(i int) string { return fmt.Sprint("n", i) },
		"all for one":      func(int) string { return "n0" },
	} {
		tables := NewTables(w.p, TableOptions{Waiting: 1})
		blocks := NewBlocks(tables)
		var all sync.WaitGroup
		errs := make([]error, nodes)
		for i := range nodes {
			all.Go(func() {
				s, resolved, err := blocks.Of(t.Context(), policy.NodeID(of(i)))
				if errs[i] = err; err == nil && (!resolved || len(s.Body) == 0) {
					errs[i] = fmt.Errorf("%s: resolved %t, %d bytes", of(i), resolved, len(s.Body))
				}
			})
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err, what)
		}
		require.Empty(t, tables.rooms.outside)
		require.Empty(t, tables.rooms.inside)
	}
}

// Who gives up waiting for room takes nobody's place.
func TestWhoGivesUpWaitingLetsTheNextIn(t *testing.T) {
	r, home := newRooms(1), uuid.UUID{1}
	require.NoError(t, r.enter(home))
	require.Equal(t, &BusyError{Waiting: 1}, r.enter(home))
	outside := func(n int) {
		until(func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.outside[home]) == n
		})
	}
	ctx, giveUp := context.WithCancel(t.Context())
	came, left := make(chan bool), make(chan bool)
	go func() { left <- r.wait(ctx, home) }()
	outside(1)
	go func() { came <- r.wait(t.Context(), home) }()
	outside(2)
	giveUp()
	require.False(t, <-left)
	r.leave(home)
	require.True(t, <-came)
	require.NoError(t, r.enter(home))
	require.Empty(t, r.outside)
}

// What was aborted may be staged again under its id, as another: nothing that is
// remembered of the first is said of the second.
func TestNothingIsSaidOfARevisionThatWasAnother(t *testing.T) {
	w := newTown(t)
	w.node(1, "a", "10.0.0.1")
	web, _ := policy.ParseExpr("role=web")
	rule := func(action policy.Action, port uint16) policy.Rule {
		return policy.Rule{
			Action: action, Protocol: policy.TCP, Ports: policy.Ports{From: port, To: port + 1},
			Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.MustParsePrefix("10.0.0.0/8"),
		}
	}
	head := policy.Revision{
		ID: uuid.New(), Selector: policy.Selector{Source: web, Destination: web}, Rules: []policy.Rule{rule(policy.Allow, 80)}, CreatedAt: time.Unix(1, 0), CreatedBy: "b",
	}
	id, home, trial := uuid.New(), uuid.UUID{1}, head
	trial.ID, trial.Parent = uuid.New(), head.ID
	w.fold(policy.RevisionCreated{ID: uuid.New(), Project: home, Policy: id, Slug: "p", Revision: head})
	tables := NewTables(w.p, TableOptions{})
	blocks := NewBlocks(tables)
	resolved := map[bool]bool{}
	for _, rules := range [][]policy.Rule{
		{rule(policy.Allow, 90), rule(policy.Deny, 90)}, {rule(policy.Allow, 90), rule(policy.Deny, 190)}, {rule(policy.Deny, 90), rule(policy.Allow, 190)},
	} {
		trial.Rules = rules
		promoted := policy.RevisionPromoted{ID: uuid.New(), Project: home, Policy: id, Revision: trial.ID}
		promoted.Waves, promoted.Gate = []policy.Expr{web}, policy.DefaultGate
		w.fold(policy.RevisionStaged{ID: uuid.New(), Project: home, Policy: id, Revision: trial}, promoted)
		fresh := NewTables(w.p, TableOptions{})
		require.Equal(t, said(t, fresh, "a"), said(t, tables, "a"))
		want, yes, err := NewBlocks(fresh).Of(t.Context(), "a")
		require.NoError(t, err)
		got, too, err := blocks.Of(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, yes, too)
		require.Equal(t, string(want.Body), string(got.Body))
		resolved[yes] = true
		w.fold(policy.RolloutAborted{ID: uuid.New(), Project: home, Policy: id, Revision: trial.ID})
	}
	require.Len(t, resolved, 2, "one of them says by itself what it is, another does not")
}
