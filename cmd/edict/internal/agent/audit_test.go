//go:build linux

package agent_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/knftables"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/policy"
)

func (s *shelf) putAudit(table []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit = table
}

// auditOf is a table that denies a port by a rule of a policy, and allows another.
func auditOf(version int, id uuid.UUID, port int) []byte {
	entries := fmt.Sprintf(`[{"direction":"ingress","identity":0,"protocol":"tcp","port":%d,"prefix":16,"verdict":"deny","precedence":9,"rule":{"policy":%q,"revision":"r","index":3}},`+
		`{"direction":"ingress","identity":0,"protocol":"tcp","port":9,"prefix":16,"verdict":"redirect","proxy_port":1,"auth":"required","precedence":9,"rule":{"policy":"01900000-0003-72ce-a48f-e028a62562a8","revision":"r","index":4}}]`, port, id)
	sum := sha256.Sum256([]byte(`{"identities":[],"entries":` + entries + `}`))
	return fmt.Appendf(nil, `{"node_id":%q,"version":%d,"fingerprint":%q,"identities":[],"entries":%s}`,
		self, version, base64.StdEncoding.EncodeToString(sum[:]), entries)
}

// What policies in audit mode would deny is counted beside what is in force, and
// reported; nothing of it is denied, and what is in force never waits for it.
func TestANodeCountsWhatPoliciesInAuditModeWouldDeny(t *testing.T) {
	b, w := heard(t)
	id := uuid.MustParse("01900000-0003-72ce-a48f-e028a62562a7")
	const counter = "ingress_denied_01900000000372cea48fe028a62562a7"
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	met := func(name string, packets uint64) {
		b.audit.Lock()
		defer b.audit.Unlock()
		b.audit.Table.Counters[name].Packets = knftables.PtrTo(packets)
	}
	said := func(next func() agent.Status, want []policy.AuditCount) {
		require.Eventually(t, func() bool {
			next()
			return w.count() > 0 && fmt.Sprint(w.last().Audited) == fmt.Sprint(want)
		}, 20*time.Second, time.Millisecond)
	}
	b.life(func(next func() agent.Status) {
		said(next, nil)
		require.Empty(t, b.audit.Dump(), "no policy in audit mode")
		b.plane.putAudit(auditOf(6, id, 22))
		require.Eventually(t, func() bool { next(); return b.audit.Dump() != "" }, 20*time.Second, time.Millisecond)
		require.NotContains(t, b.audit.Dump(), "drop")
		require.Contains(t, b.audit.Dump(), "tcp . 22 : goto "+counter)
		met(counter, 7)
		met("egress_denied_by_default", 3)
		said(next, []policy.AuditCount{{Egress: 3}, {Policy: id, Ingress: 7}})

		b.plane.putAudit(auditOf(7, id, 23)) // the same policy goes on counting
		require.Eventually(t, func() bool { next(); return w.last().Outcome == policy.OutcomeApplied && len(w.last().Audited) == 2 }, 20*time.Second, time.Millisecond)
		said(next, []policy.AuditCount{{Egress: 3}, {Policy: id, Ingress: 7}})
		require.Contains(t, b.audit.Dump(), "tcp . 23")

		b.plane.putAudit(nil)
		said(next, nil)
		require.Empty(t, b.audit.Dump())
		require.Contains(t, b.rules(), "tcp . 443 : accept")

		b.audit.Refuse(fmt.Errorf("no room"))
		b.plane.putAudit(auditOf(8, id, 24))
		b.plane.put(tableOf(9, allowTCP(444)), nil)
		require.Eventually(t, func() bool { return next().Version == 9 }, 20*time.Second, time.Millisecond)
		require.Contains(t, b.rules(), "tcp . 444 : accept", "what is in force does not wait for what is counted")
		w.until(t, next, policy.OutcomeApplied, "")
	})
}

// silentAudit is a plane that answers everything but what would be denied.
type silentAudit struct {
	agent.Tables
	asked  chan struct{}
	waited *atomic.Bool // somebody waited for an answer until there was one
}

func (s silentAudit) Table(ctx context.Context, id string, ask client.TableQuery) (client.Table, error) {
	if !ask.Audit {
		return s.Tables.Table(ctx, id, ask)
	}
	select {
	case s.asked <- struct{}{}:
	default:
	}
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
		s.waited.Store(true)
	}
	return client.Table{}, errors.New("silent")
}

// TestWhatIsInForceNeverWaitsForWhatIsCounted: nor do the status and the report of it.
func TestWhatIsInForceNeverWaitsForWhatIsCounted(t *testing.T) {
	b, w := heard(t)
	silent := silentAudit{b.plane, make(chan struct{}, 1), new(atomic.Bool)}
	b.tables = silent
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		<-silent.asked
		require.Equal(t, agent.StateCurrent, next().State)
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		require.EqualValues(t, 6, next().Version)
		require.Contains(t, b.rules(), "tcp . 444 : accept")
		require.EqualValues(t, 6, b.kept().Version)
		w.until(t, next, policy.OutcomeApplied, "")
	})
	require.False(t, silent.waited.Load())
}
