package convergence

import (
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

func TestCountsOfManyNodesNeverBeginAnew(t *testing.T) {
	id := uuid.New()
	a := audits{}
	a.note(1, policy.Report{Audited: []policy.AuditCount{{Policy: id, Egress: math.MaxUint64, Ingress: 3}, {Egress: 5}}})
	a.note(2, policy.Report{Audited: []policy.AuditCount{{Policy: id, Egress: 7, Ingress: 4}, {Policy: uuid.New(), Egress: 9}, {Ingress: math.MaxUint64}}})
	var sum Audited
	for ordinal := range uint32(4) {
		a.addTo(&sum, ordinal, id)
	}
	require.Equal(t, Audited{
		Nodes: 2, Denied: AuditCount{Egress: math.MaxUint64, Ingress: 7}, ByDefault: AuditCount{Egress: 5, Ingress: math.MaxUint64},
	}, sum)
}
