package resource

import "github.com/google/uuid"

// AuditCount is the packets that a policy in audit mode would have denied at a node,
// in each direction. PolicyID is nil for those that no rule would have allowed.
type AuditCount struct {
	PolicyID *uuid.UUID `json:"policy_id,omitempty" doc:"The policy whose rule would have denied them. Absent: no rule would have allowed them."`
	Egress   uint64     `json:"egress" doc:"Packets that the node sent."`
	Ingress  uint64     `json:"ingress" doc:"Packets that the node received."`
}

// Audited is what nodes counted for a policy in audit mode.
type Audited struct {
	Nodes   int    `json:"nodes" doc:"Nodes that the policy matches and that reported a count."`
	Egress  uint64 `json:"egress" doc:"Packets that its rules would have denied for egress, since each node began to count."`
	Ingress uint64 `json:"ingress" doc:"The same for ingress."`

	ByDefault AuditedByDefault `json:"by_default" doc:"Packets of these nodes that no rule would have allowed, if all their policies in audit mode were in force."`
}

// AuditedByDefault counts packets that no rule would have allowed.
type AuditedByDefault struct {
	Egress  uint64 `json:"egress" doc:"Packets that nodes sent."`
	Ingress uint64 `json:"ingress" doc:"Packets that nodes received."`
}
