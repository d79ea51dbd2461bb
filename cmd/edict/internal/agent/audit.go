//go:build linux

package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/policy"
)

// auditWait is how long a look at what is in force waits for what is counted, for the sake of
// its report. Whatever takes longer goes on beside the next looks.
const auditWait = time.Second

// auditor has the kernel count what the node's policies in audit mode would deny. It
// is beside what is in force: whatever fails here, or takes its time, changes nothing there.
type auditor struct {
	// under gets what was counted when the look under way ends; nil: none is. counts are what the
	// last one gave. Only the enforcer's goroutine uses these two, and only that of the look
	// under way the rest.
	under  chan []policy.AuditCount
	counts []policy.AuditCount

	node    policy.NodeID
	tables  Tables
	nft     *enforce.Nftables
	log     *slog.Logger
	ruleset *enforce.Ruleset // that counts; nil: none does
	clean   bool             // nothing of an earlier life is in the kernel
	etag    string
	failed  string // what was logged last
}

func newAuditor(opt EnforcerOptions) *auditor {
	return &auditor{node: opt.Node, tables: opt.Tables, nft: enforce.NewNftables(opt.AuditKernel), log: opt.Log.With("node", opt.Node)}
}

// look begins to bring the kernel to what the plane says would be in force, unless it is under
// way, and gives what was counted as far as is known soon. err is why what is in force is not
// what the plane serves.
func (a *auditor) look(ctx context.Context, err error) []policy.AuditCount {
	if a.under != nil {
		select {
		case a.counts = <-a.under:
		default:
			return a.counts
		}
	}
	under := make(chan []policy.AuditCount, 1)
	a.under = under
	go func() { under <- a.once(ctx, err) }()
	soon := time.NewTimer(auditWait)
	defer soon.Stop()
	select {
	case a.counts = <-under:
		a.under = nil
	case <-soon.C:
	}
	return a.counts
}

// end waits for the look under way, whose context has ended.
func (a *auditor) end() {
	if a.under != nil {
		<-a.under
		a.under = nil
	}
}

// once brings the kernel to what the plane says would be in force, and gives what was
// counted. A plane that has just given no table, which is err, is not asked.
func (a *auditor) once(ctx context.Context, err error) []policy.AuditCount {
	if err == nil || errors.As(err, new(*refusedError)) {
		err = a.refresh(ctx)
	}
	switch {
	case err == nil:
		a.failed = ""
	case ctx.Err() == nil && brief(err) != a.failed:
		a.failed = brief(err)
		a.log.Warn("what policies in audit mode would deny is not counted now", "error", a.failed)
	}
	return most(a.nft.Denied())
}

func (a *auditor) refresh(ctx context.Context) error {
	got, err := a.tables.Table(ctx, string(a.node), client.TableQuery{StateQuery: client.StateQuery{ETag: a.etag}, Audit: true})
	switch {
	case err != nil:
		return err
	case got.None:
		return a.stop(ctx)
	case got.NotModified:
		return a.count(ctx, a.ruleset)
	}
	table, err := enforce.Parse(a.node, got.Body)
	if err != nil {
		return err
	}
	if err := a.count(ctx, enforce.RenderAudit(table)); err != nil {
		return err
	}
	if a.etag == "" {
		a.log.Info("what policies in audit mode would deny is counted", "version", table.Version)
	}
	a.etag = got.ETag
	return nil
}

// count has the kernel hold a ruleset, and reads its counters.
func (a *auditor) count(ctx context.Context, r *enforce.Ruleset) error {
	a.clean = false
	if err := a.nft.Apply(ctx, r); err != nil {
		a.etag = ""
		return err
	}
	a.ruleset = r
	return nil
}

// stop takes the counters out of the kernel, also those of an earlier life.
func (a *auditor) stop(ctx context.Context) error {
	if a.clean {
		return nil
	}
	if err := a.nft.Remove(ctx); err != nil {
		return err
	}
	a.clean, a.ruleset, a.etag = true, nil, ""
	return nil
}

// most are the counts that a report has room for, the highest of them.
func most(counts []policy.AuditCount) []policy.AuditCount {
	if len(counts) > policy.MaxAudited {
		slices.SortStableFunc(counts, func(a, b policy.AuditCount) int {
			return -cmp.Compare(a.Egress+a.Ingress, b.Egress+b.Ingress)
		})
		counts = counts[:policy.MaxAudited]
	}
	return counts
}
