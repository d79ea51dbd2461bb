package api

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
)

// fleetThen counts the nodes that there were at a moment of the past. Where they stood
// is not in the log, and not said.
type fleetThen struct {
	seq   uint64
	model views
}

// nodesAtOnce is how many nodes are looked at before others may read.
const nodesAtOnce = 4096

func (h *fleetThen) summary(c *call) error {
	among, key, limit, err := countedOf(c)
	if err != nil {
		return err
	}
	n, without, by := 0, 0, map[string]int{}
	var part []projector.NodeSummary
	var at projector.NodeCursor
	for more := true; more; {
		if err := c.r.Context().Err(); err != nil {
			return err
		}
		h.model.Read(func(v *projector.View) { part, at, more = v.NodeSummaries(part, at, nodesAtOnce) })
		for _, x := range part {
			if among.Project != uuid.Nil && x.Project != among.Project || !among.Labels.Matches(x.Labels) {
				continue
			}
			n++
			if value, has := x.Labels.Get(key); has {
				by[value]++
			} else {
				without++
			}
		}
	}
	out := resource.PastCounts{Seq: h.seq, Nodes: n}
	if key != "" {
		groups := valuesOf(by, without)
		all := len(groups)
		out.By, out.Values, out.Groups = key, &all, groups[:min(all, limit)]
	}
	return tagged(c, out)
}

// valuesOf are groups of nodes, the largest first; those without a value have none.
func valuesOf(by map[string]int, without int) []resource.PastGroup {
	groups := make([]resource.PastGroup, 0, len(by)+1)
	for value, n := range by {
		groups = append(groups, resource.PastGroup{Value: &value, Nodes: n})
	}
	slices.SortFunc(groups, func(a, b resource.PastGroup) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(*a.Value, *b.Value))
	})
	if without > 0 {
		groups = append(groups, resource.PastGroup{Nodes: without})
	}
	return groups
}
