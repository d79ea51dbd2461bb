//go:build linux

package enforce_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// auditor counts in the kernel, and by look-ups, what policies in audit mode would
// have denied of the packets that arrived.
type auditor struct {
	t     *testing.T
	nft   *enforce.Nftables
	rules *enforce.Ruleset
	table snapshot.Answer
	begun map[uuid.UUID]policy.AuditCount // what the kernel had counted before
	want  map[uuid.UUID]policy.AuditCount
}

func newAuditor(t *testing.T) *auditor {
	kernel, err := enforce.OpenNft(enforce.AuditTableName)
	require.NoError(t, err)
	return &auditor{t: t, nft: enforce.NewNftables(kernel)}
}

// begin takes up the policies of the world.
func (a *auditor) begin(w *world) {
	answer, text := w.answerIn(w.tables.InAudit())
	table, err := enforce.Parse(self, text)
	require.NoError(a.t, err)
	a.rules, a.table, a.want = enforce.RenderAudit(table), answer, map[uuid.UUID]policy.AuditCount{}
	a.begun = a.read()
}

func (a *auditor) read() map[uuid.UUID]policy.AuditCount {
	require.NoError(a.t, a.nft.Apply(a.t.Context(), a.rules))
	by := map[uuid.UUID]policy.AuditCount{}
	for _, c := range a.nft.Denied() {
		by[c.Policy] = c
	}
	return by
}

// arrived notes a packet that what is in force let pass.
func (a *auditor) arrived(s shot) {
	peer, known := a.table.Find(s.peer.String())
	require.True(a.t, known)
	e, found := a.table.Lookup(s.direction(), peer.ID, datapath.Protocol(s.looked()), s.port)
	if found && e.Verdict != datapath.Deny {
		return
	}
	id, _ := uuid.Parse(e.Rule.Policy)
	c := a.want[id]
	if c.Policy = id; s.egress {
		c.Egress++
	} else {
		c.Ingress++
	}
	a.want[id] = c
}

// end compares the two, and says how many were counted, and how many of them by a rule.
func (a *auditor) end() (all, byRule int) {
	got := map[uuid.UUID]policy.AuditCount{}
	for id, c := range a.read() {
		c.Egress -= a.begun[id].Egress
		c.Ingress -= a.begun[id].Ingress
		if c.Egress+c.Ingress > 0 {
			got[id] = c
		}
	}
	require.Equal(a.t, a.want, got)
	for id, c := range got {
		n := int(c.Egress + c.Ingress)
		if all += n; id != uuid.Nil {
			byRule += n
		}
	}
	return all, byRule
}
