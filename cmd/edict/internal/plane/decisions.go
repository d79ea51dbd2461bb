package plane

import (
	"context"
	"time"

	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/streams"
)

// DecisionOptions say whether and how admission decisions are kept.
type DecisionOptions struct {
	On   bool
	Mask admission.Mask
	// Age and Bytes bound a stream that is made now; 0: the stream's defaults.
	Age   time.Duration
	Bytes int64
}

// openDecisions opens the decision log's stream, if there is to be one: who
// asked for it is told at once when it cannot be.
func (p *Plane) openDecisions(ctx context.Context) (err error) {
	if !p.opt.Decisions.On {
		return nil
	}
	opt := streams.DecisionsOptions{MaxAge: p.opt.Decisions.Age, MaxBytes: p.opt.Decisions.Bytes}
	p.decisionStream, err = streams.OpenDecisions(ctx, p.conn, opt)
	return integrity.Advise(err)
}

// newAdmitter is the registry of admission policies, and the log of what they
// decide, which is nil when nobody asked for one.
func (p *Plane) newAdmitter(metrics admission.Metrics, count func(result string, n int)) {
	opt := admission.RegistryOptions{Metrics: metrics}
	if p.decisionStream != nil {
		p.decisions = admission.NewDecisionLog(admission.DecisionLogOptions{
			To: p.decisionStream, Worker: p.opt.Name, Mask: p.opt.Decisions.Mask, Writable: p.disk.Writable, Count: count, Log: p.log,
		})
		opt.Decided = p.decisions.Decided
	}
	p.admitter = admission.NewRegistry(p.store, opt)
}

func (p *Plane) keepDecisions(ctx context.Context) error {
	if p.decisions == nil {
		return nil
	}
	return p.decisions.Run(ctx)
}
