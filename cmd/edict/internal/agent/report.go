//go:build linux

package agent

import (
	"errors"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/policy"
)

// say reports how a look went: drift is what it put right, err why the table that
// the plane serves is not known, or not in force. rep is what the node had been sent
// before it asked for the table.
func (e *Enforcer) say(rep policy.Report, drift, err error) {
	now := e.opt.Now()
	if drift != nil {
		e.drift, e.driftAt = drift, now
	} else if now.Sub(e.driftAt) >= e.opt.Every {
		e.drift = nil
	}
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		rep.Outcome, rep.Reason = policy.OutcomeRefused, policy.ReasonOf(err.Error())
		if fault.Always(fault.EarlyReport) {
			rep.Outcome = policy.OutcomeApplied
		}
	case err != nil && e.status.At(now).State == StateStale:
		rep.Outcome, rep.Reason = policy.OutcomeStale, policy.ReasonOf(err.Error())
	case e.drift != nil:
		rep.Outcome, rep.Reason = policy.OutcomeDrift, policy.ReasonOf(e.drift.Error())
	case err != nil:
		return // the next look may know more
	}
	if err == nil {
		rep.Table = e.right
	}
	e.reports.Send(rep)
}
