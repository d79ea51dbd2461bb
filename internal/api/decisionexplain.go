package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// explain evaluates a decision's request once more: by the policies that took part, as
// they were then, and by the present ones.
func (h *decisionHandlers) explain(c *call) error {
	out, record, err := h.recorded(c)
	if err != nil {
		return err
	}
	now, err := h.registry.Snapshot(c.r.Context())
	if err != nil {
		return err
	}
	took, all := record.Judged()
	out.Policies = comparedWith(now, out.Decision, took)
	request, whole := c.askedAgain(record)
	if !whole {
		out.Unjudged = "a part of the request was masked"
		return c.json(http.StatusOK, out)
	}
	if out.Now, err = h.evaluated(c, now, request); err != nil {
		return err
	}
	switch {
	case now.Version() == record.SnapshotVersion:
		out.Then = out.Now
	case !all:
		out.Unjudged = "the decision does not name the versions of all policies that judged it"
	default:
		out.Then, err = h.evaluatedThen(c, record.SnapshotVersion, took, request)
		if errors.Is(err, errNoPast) {
			out.Unjudged, err = err.Error(), nil
		}
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, out)
}

// askedAgain is a recorded request, asked by who asks now; false when something of it was
// masked.
func (c *call) askedAgain(record admission.Record) (request admission.Request, whole bool) {
	request, whole = record.Request()
	request.Caller = c.principal
	if request.ServiceType == serviceNetworkPolicy {
		named := request.Payload["slug"] != nil
		request.Fits = func(patched map[string]any) []admission.Misfit { return misfits(patched, named) }
	}
	return request, whole
}

// evaluatedThen is what policies say as they were. The error is errNoPast where the log
// does not have them.
func (h *decisionHandlers) evaluatedThen(c *call, version uint64, took []admission.Version, request admission.Request) (*resource.Verdict, error) {
	past, err := h.registry.Past(c.r.Context(), c.principal, version, took, h.policyThen)
	if errors.Is(err, admission.ErrBusy) {
		return nil, unadmitted(err, "")
	}
	if err != nil {
		return nil, err
	}
	return h.evaluated(c, past, request)
}

// recorded is the decision that the path names.
func (h *decisionHandlers) recorded(c *call) (out resource.DecisionExplanation, r admission.Record, err error) {
	missing := problem(http.StatusNotFound, CodeDecisionNotFound, "the decision log has no decision %.40q", c.r.PathValue("seq"))
	seq, err := strconv.ParseUint(c.r.PathValue("seq"), 10, 64)
	if err != nil {
		return out, r, missing
	}
	first, last, err := h.extent(c)
	if err != nil {
		return out, r, err
	}
	if seq < first || seq > last {
		return out, r, missing
	}
	var body []byte // stays empty where it was dropped meanwhile
	for batch, err := range h.log.Read(c.r.Context(), seq, seq) {
		if err != nil {
			return out, r, unreadableDecisions(err)
		}
		for _, m := range batch {
			body = m.Body
		}
	}
	if err := c.r.Context().Err(); err != nil {
		return out, r, err
	}
	if r, err = admission.ReadRecord(body); err != nil || json.Unmarshal(body, &out.Decision) != nil {
		return out, r, missing
	}
	out.Decision.Seq = seq
	return out, r, nil
}

// comparedWith says of the policies that took part in a decision whether they are still
// what they were.
func comparedWith(now *admission.Snapshot, d resource.Decision, took []admission.Version) []resource.DecidingPolicy {
	out := make([]resource.DecidingPolicy, len(took))
	for i, v := range took {
		p := resource.DecidingPolicy{ID: v.ID, Version: v.Version, Present: now.Changed(v.ID)}
		if i < len(d.Policies) {
			p.Name = d.Policies[i].Name
		} else {
			p.Name = d.Shadows[i-len(d.Policies)].Name
		}
		switch {
		case p.Present == 0:
			p.State = resource.PolicyGone
		case p.Version == 0:
			p.State = resource.PolicyUnknown
		case p.Version == p.Present:
			p.State = resource.PolicyUnchanged
		default:
			p.State = resource.PolicyChanged
		}
		out[i] = p
	}
	return out
}

// errNoPast: the log does not say what a policy was.
var errNoPast = errors.New("the log does not have the policies of then")

// policyThen is a policy as the log has it.
func (h *decisionHandlers) policyThen(ctx context.Context, v admission.Version) (policy.AdmissionPolicy, error) {
	none := fmt.Errorf("%w: no %s at %d", errNoPast, v.ID, v.Version)
	if h.event == nil {
		return policy.AdmissionPolicy{}, none
	}
	m, err := h.event(ctx, v.Version)
	if errors.Is(err, streams.ErrNotFound) {
		return policy.AdmissionPolicy{}, none
	}
	if err != nil {
		return policy.AdmissionPolicy{}, problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log did not say what admission policy %s was: %v", v.ID, err)
	}
	e, err := policy.Decode(m.Body)
	was, ok := e.(policy.AdmissionPolicyUpdated)
	if err != nil || !ok || string(was.Policy) != v.ID {
		return policy.AdmissionPolicy{}, none
	}
	return was.Document, nil
}

// evaluated is what a set of policies says. Only who is too busy says nothing.
func (h *decisionHandlers) evaluated(c *call, s *admission.Snapshot, r admission.Request) (*resource.Verdict, error) {
	result, err := h.registry.Engine().Evaluate(c.r.Context(), s, r, admission.Options{Explain: true, DryRun: true})
	explain, broken := explanationOf(result)
	if broken != nil {
		return nil, broken
	}
	if err == nil {
		return &resource.Verdict{Status: string(result.Status), Explain: explain}, nil
	}
	err = unadmitted(err, "")
	var pr *resource.Problem
	if !errors.As(err, &pr) || pr.Status == http.StatusServiceUnavailable {
		return nil, err
	}
	return &resource.Verdict{Status: pr.Code, Policy: pr.Policy, Detail: pr.Detail, Explain: explain}, nil
}
