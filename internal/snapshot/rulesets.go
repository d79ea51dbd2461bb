package snapshot

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// Ruleset is one (node, policy) row with its payload, verbatim.
type Ruleset struct {
	Policy      uuid.UUID
	Revision    uuid.UUID
	Fingerprint compiler.Fingerprint
	Payload     []byte
	CompiledAt  time.Time // the head revision's log timestamp
}

// Rulesets lists a node's rows, policy id ascending. ok is false when the view
// holds no such node; an error is a corrupt row.
func Rulesets(v View, id policy.NodeID) (sets []Ruleset, ok bool, err error) {
	rows, ok := v.Rows(id)
	if !ok {
		return nil, false, nil
	}
	sets = make([]Ruleset, 0, len(rows.Rows))
	for _, r := range rows.Rows {
		payload, err := v.Payload(r.Fingerprint)
		if err != nil {
			return nil, false, fmt.Errorf("ruleset of node %s, policy %s: %w", id, r.Policy, err)
		}
		sets = append(sets, Ruleset{
			Policy:      r.Policy,
			Revision:    r.Revision,
			Fingerprint: r.Fingerprint,
			Payload:     payload,
			CompiledAt:  r.CompiledAt,
		})
	}
	return sets, true, nil
}
