package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

const patternNodeDiff = "/v1/nodes/{node}/diff"

func (h *pastHandlers) routes() []Route {
	return []Route{{
		Method: http.MethodGet, Pattern: patternNodeDiff, ID: "diffNode", Tag: "node", Needs: access.ReadNode,
		Summary: "Say what became of a node between two moments of the log, and which events did that",
		Params: []Param{
			momentParam("from", "The first moment: a log sequence, or a time (RFC 3339).", true),
			momentParam("to", "The second, likewise; the log's head when absent.", false),
		},
		Answers: jsonAnswer(http.StatusOK, resource.NodeDiff{}), Problems: pastProblems(readProblems(CodeNodeNotFound, policy.CodeMissing)...), serve: h.diff,
	}}
}

// What became of a ruleset.
const rowAdded, rowRemoved, rowChanged = "added", "removed", "changed"

// nodeThen is what a diff reads of a node at one moment.
type nodeThen struct {
	seq   uint64
	there bool
	info  projector.NodeInfo
	rows  map[uuid.UUID]projector.Row
	slugs map[uuid.UUID]string
	etag  string
}

func (h *pastHandlers) diff(c *call) error {
	id, err := c.pathNode()
	if err != nil {
		return err
	}
	from, to, err := h.moments(c)
	if err != nil {
		return err
	}
	var before, after nodeThen
	var last map[uuid.UUID]uint64
	err = h.at(c, from, func(m *snapshot.Moment) (err error) {
		before, err = h.then(c, m, id)
		return err
	})
	if err == nil {
		err = h.at(c, to, func(m *snapshot.Moment) (err error) {
			if after, err = h.then(c, m, id); err == nil && after.there {
				last, err = lastChanges(m, id, h.base(), from, after)
			}
			return err
		})
	}
	switch {
	case err != nil:
		return err
	case !before.there && !after.there:
		return nodeNotFound(id)
	}
	out, err := h.compare(c.r.Context(), before, after, last)
	if err != nil {
		return err
	}
	out.NodeID = string(id)
	return c.json(http.StatusOK, out)
}

// moments reads the two of a diff.
func (h *pastHandlers) moments(c *call) (from, to uint64, err error) {
	q := c.r.URL.Query()
	if q.Get("from") == "" {
		return 0, 0, broken(http.StatusUnprocessableEntity, policy.CodeMissing, "/from", "the query needs from")
	}
	if from, err = h.moment(c, "from"); err != nil {
		return 0, 0, err
	}
	if q.Get("to") != "" {
		to, err = h.moment(c, "to")
	} else if err == nil {
		to, err = h.head(c)
	}
	if err == nil && from > to {
		err = broken(http.StatusBadRequest, CodeBadParameter, "/from", "event %d comes behind event %d: from is the earlier moment", from, to)
	}
	return from, to, err
}

// then reads a node at a moment.
func (h *pastHandlers) then(c *call, m *snapshot.Moment, id policy.NodeID) (n nodeThen, err error) {
	n = nodeThen{seq: m.Seq, rows: map[uuid.UUID]projector.Row{}}
	var state snapshot.State
	m.Store.Read(func(v *projector.View) {
		if n.info, n.there = v.Node(id); !n.there {
			return
		}
		rows, _ := v.Rows(id)
		for _, r := range rows.Rows {
			n.rows[r.Policy] = r
		}
		state, _, err = m.Composer.State(v, id)
	})
	if err != nil || !n.there {
		return n, err
	}
	n.slugs = m.Store.Slugs(n.info.Project, slices.Collect(maps.Keys(n.rows)))
	if state, err = (nodeStates{m.Composer, m.Blocks}).resolved(c.r.Context(), id, state); err != nil {
		return n, busy(err)
	}
	n.etag = state.ETag
	return n, nil
}

// lastChanges are the last events behind a sequence that changed the rulesets of a node, by
// policy, as far as they are known; that of the node itself is under uuid.Nil.
func lastChanges(m *snapshot.Moment, id policy.NodeID, base, from uint64, now nodeThen) (map[uuid.UUID]uint64, error) {
	past, err := m.Store.Past(id, policy.EndOf(base, from), nil)
	if err != nil {
		return nil, err
	}
	last := map[uuid.UUID]uint64{}
	for _, item := range past.Items {
		if item.Policy != uuid.Nil {
			last[item.Policy] = item.Seq
		}
	}
	m.Store.Read(func(v *projector.View) {
		if s, ok := v.NodeSummary(id); ok && s.Facts > from {
			last[uuid.Nil] = s.Facts
		}
		for p, row := range now.rows { // a revision that says what the one before said
			if list, rerr := v.Revisions(now.info.Project, p, 0, 1); last[p] == 0 && rerr == nil && len(list) > 0 && list[0].ID == row.Revision && list[0].Seq > from {
				last[p] = list[0].Seq
			}
		}
	})
	return last, nil
}

// compare makes the answer.
func (h *pastHandlers) compare(ctx context.Context, before, after nodeThen, last map[uuid.UUID]uint64) (out resource.NodeDiff, err error) {
	out = resource.NodeDiff{From: before.show(), To: after.show(), Rows: []resource.RowChange{}}
	ids := maps.Clone(before.rows)
	maps.Copy(ids, after.rows)
	for _, id := range slices.SortedFunc(maps.Keys(ids), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }) {
		was, had := before.rows[id]
		is, has := after.rows[id]
		row := resource.RowChange{PolicyID: id, Slug: cmp.Or(after.slugs[id], before.slugs[id]), Change: rowChanged}
		switch {
		case had && has && was.Revision == is.Revision:
			continue
		case !had:
			row.Change = rowAdded
		case !has:
			row.Change = rowRemoved
		}
		if had {
			row.Before = showRow(was)
		}
		if has {
			row.After = showRow(is)
		}
		if row.Event, err = h.named(ctx, last[id]); err != nil {
			return out, err
		}
		out.Rows = append(out.Rows, row)
	}
	out.Event, err = h.named(ctx, last[uuid.Nil])
	return out, err
}

// named shows an event; seq 0 is none, and one that the log has not any more is nil, too.
func (h *pastHandlers) named(ctx context.Context, seq uint64) (*resource.ChangeEvent, error) {
	if seq == 0 || h.event == nil {
		return nil, nil
	}
	m, err := h.event(ctx, seq)
	switch {
	case errors.Is(err, streams.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, unreadableLog(err)
	}
	out := &resource.ChangeEvent{Seq: m.Seq, Time: m.Time.UTC()}
	if e, _ := policy.Decode(m.Body); e != nil {
		out.Type, out.EventID = e.EventType(), e.EventID().String()
	}
	return out, nil
}

func (n nodeThen) show() resource.NodeAt {
	out := resource.NodeAt{Seq: n.seq, ETag: n.etag}
	if n.there {
		shown := showNode(n.info)
		out.Facts = &resource.Facts{Labels: shown.Labels, Addresses: shown.Addresses}
	}
	return out
}

func showRow(r projector.Row) *resource.RowRevision {
	return &resource.RowRevision{RevisionID: r.Revision, Fingerprint: r.Fingerprint.String()}
}
