package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

// counted has another plane count the nodes of a moment at which this one's log ends.
func (p *plane) counted(later *plane, seq uint64) {
	p.t.Helper()
	page := into[resource.Page[resource.Node]](p.t, p.do("GET", nodes+"?limit=1000", ""))
	for _, key := range []string{"role", "env", "nobody-has-it"} {
		want := map[string]int{}
		for _, n := range page.Items {
			if value, has := n.Labels[key]; has {
				want["="+value]++
			} else {
				want["none"]++
			}
		}
		for _, path := range []string{"/v1/nodes:summary", nodes + ":summary"} {
			a := later.do("GET", fmt.Sprintf("%s?by=%s&at=%d", path, key, seq), "")
			p.want(http.StatusOK, "", a)
			c := into[resource.PastCounts](p.t, a)
			got := map[string]int{}
			for _, g := range c.Groups {
				if g.Value == nil {
					got["none"] = g.Nodes
				} else {
					got["="+*g.Value] = g.Nodes
				}
			}
			require.Equal(p.t, want, got, "%s by %s at %d", path, key, seq)
			require.Equal(p.t, []int{len(page.Items), len(want)}, []int{c.Nodes, *c.Values})
			require.Equal(p.t, seq, c.Seq)
		}
	}
}

// Of many values those with the most nodes are listed, and how many there are.
func TestTheFleetThenIsCountedByItsLargestGroups(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.History = historyOf(t, d.Log.(*memLog), memOptions, 1) })
	for i, role := range []string{"a", "b", "b", "c", "c", "c"} {
		p.put(fmt.Sprintf("n%d", i), `{"labels":{"role":"`+role+`"},"addresses":[]}`)
	}
	p.put("n6", `{"labels":{},"addresses":[]}`)
	p.do("DELETE", nodes+"/n5", "")
	c := into[resource.PastCounts](t, p.do("GET", nodes+":summary?by=role&limit=2&at=7", ""))
	require.Equal(t, []int{7, 4, 2, 3, 2}, []int{c.Nodes, *c.Values, len(c.Groups), c.Groups[0].Nodes, c.Groups[1].Nodes})
	c = into[resource.PastCounts](t, p.do("GET", nodes+":summary?label_selector=role%3Dc&at=7", ""))
	require.Equal(t, 3, c.Nodes)
	require.Equal(t, 6, into[resource.NodeCounts](t, p.do("GET", nodes+":summary", "")).Nodes, "now")
	p.want(http.StatusBadRequest, "not_yet", p.do("GET", nodes+":summary?at=99", ""))
}
