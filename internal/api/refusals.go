package api

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// tableRefusals finds the nodes that keep an older table.
type tableRefusals struct {
	model    views
	tables   *snapshot.Tables
	patience time.Duration
}

// of are nodes of a policy that keep an older table. Nodes of one
// label set have much the same table, so one of each is asked, where a policy of it is
// not plain, as long as the patience lasts: a hundred thousand nodes may all have labels of their own, and one
// table may be half a minute of work. Others are known because they asked.
func (t *tableRefusals) of(ctx context.Context, project, id uuid.UUID, limit int) ([]resource.Refused, error) {
	var sets []projector.NodeSummary
	var err error
	t.model.Read(func(v *projector.View) {
		var pol policy.Policy
		var ok bool
		if pol, ok, err = v.Policy(project, id); ok && err == nil {
			sets = v.MatchedSets(project, []policy.Selector{pol.Head.Selector})
		}
	})
	if err != nil {
		return nil, err
	}
	ctx, done := untilStop(ctx)
	defer done()
	asking, end := context.WithTimeout(ctx, cmp.Or(t.patience, 2*time.Second))
	defer end()
	for _, s := range sets[:min(limit, len(sets))] {
		if err := t.ask(asking, s.ID); err != nil && asking.Err() == nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var out []resource.Refused
	for _, r := range t.tables.RefusedWhere(t.among(sets), limit) {
		out = append(out, *showRefused(&r))
	}
	return out, nil
}

// ask has the table of a node made, if a policy of it is not plain.
func (t *tableRefusals) ask(ctx context.Context, node policy.NodeID) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if plain, err := t.tables.Plain(node); plain || err != nil {
		return err
	}
	var refused *snapshot.TableError
	var busy *snapshot.BusyError // then it is not known
	_, _, err := t.tables.Of(ctx, node)
	if errors.As(err, &refused) || errors.As(err, &busy) {
		return nil
	}
	return err
}

// among reports whether a node is of one of some label sets.
func (t *tableRefusals) among(sets []projector.NodeSummary) func(policy.NodeID) bool {
	of := make(map[uint32]bool, len(sets))
	for _, s := range sets {
		of[s.Identity] = true
	}
	return func(id policy.NodeID) (is bool) {
		t.model.Read(func(v *projector.View) {
			s, ok := v.NodeSummary(id)
			is = ok && of[s.Identity]
		})
		return is
	}
}
