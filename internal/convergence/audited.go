package convergence

import (
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Audited is what the nodes of a policy in audit mode would have denied.
type Audited struct {
	Nodes             int // that reported a count
	Denied, ByDefault AuditCount
}

// AuditCount is a sum over nodes, in packets. It stops at the largest number: one node that
// reports nonsense must not make it small.
type AuditCount struct{ Egress, Ingress uint64 }

func (c *AuditCount) add(x policy.AuditCount) {
	c.Egress += min(x.Egress, math.MaxUint64-c.Egress)
	c.Ingress += min(x.Ingress, math.MaxUint64-c.Ingress)
}

// maxAudited bounds the nodes whose counts are kept: beyond them the plane counts too
// little until they report again.
const maxAudited = 1 << 17

// audits are the counts of nodes' last reports, by ordinal.
type audits map[uint32][]policy.AuditCount

// note keeps the counts of a node's last report.
func (a audits) note(ordinal uint32, said policy.Report) {
	if len(said.Audited) == 0 {
		delete(a, ordinal)
		return
	}
	if _, there := a[ordinal]; !there && len(a) >= maxAudited {
		for other := range a {
			delete(a, other)
			break
		}
	}
	a[ordinal] = slices.Clone(said.Audited)
}

// addTo adds what a node counted for a policy.
func (a audits) addTo(sum *Audited, ordinal uint32, id uuid.UUID) {
	counts := a[ordinal]
	if len(counts) == 0 {
		return
	}
	sum.Nodes++
	for _, c := range counts {
		switch c.Policy {
		case id:
			sum.Denied.add(c)
		case uuid.Nil:
			sum.ByDefault.add(c)
		}
	}
}
