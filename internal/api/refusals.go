package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	var groups [][]projector.NodeSummary
	var err error
	t.model.Read(func(v *projector.View) {
		var pol policy.Policy
		var ok bool
		if pol, ok, err = v.Policy(project, id); ok && err == nil {
			groups = v.Matched(project, []policy.Selector{pol.Head.Selector})
		}
	})
	if err != nil {
		return nil, err
	}
	ctx, done := untilStop(ctx)
	defer done()
	asking, end := context.WithTimeout(ctx, cmp.Or(t.patience, 2*time.Second))
	defer end()
	var nodes []policy.NodeID
	for i, members := range groups {
		for _, s := range members {
			nodes = append(nodes, s.ID)
		}
		if i >= limit || len(members) == 0 || asking.Err() != nil {
			continue
		}
		if plain, err := t.tables.Plain(members[0].ID); plain || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		var refused *snapshot.TableError
		var busy *snapshot.BusyError // then it is not known
		_, _, err := t.tables.Of(asking, members[0].ID)
		if err != nil && !errors.As(err, &refused) && !errors.As(err, &busy) && asking.Err() == nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slices.Sort(nodes)
	var out []resource.Refused
	for _, r := range t.tables.Refused(nodes) {
		if len(out) < limit {
			out = append(out, *showRefused(&r))
		}
	}
	return out, nil
}
