package gen

import (
	"maps"
	"slices"
)

// The kinds of step of a rollout. Each stands for one event of the log.
const (
	Stage   Kind = "stage revision"
	Promote Kind = "promote revision"
	Open    Kind = "open wave"
	Stop    Kind = "stop rollout"
	Abort   Kind = "abort rollout"
)

// rollout is one between the steps of a history.
type rollout struct {
	waves, opened  int
	abort, stopped bool
}

// WithRollouts puts rollouts between the steps of a history, of policies that live
// then, so that the fold still accepts every step. A rollout ends before its policy
// is revised; a deletion ends it by itself.
func (g *Gen) WithRollouts(steps []Step) []Step {
	live, under := map[string]Policy{}, map[string]*rollout{}
	var out []Step
	for _, s := range steps {
		if s.Kind == Revise && under[s.Slug] != nil {
			out = append(out, Step{Kind: Abort, Why: "not wanted", Slug: s.Slug})
			delete(under, s.Slug)
		}
		switch out = append(out, s); s.Kind {
		case Create, Revise:
			live[s.Slug] = s.Policy
		case Delete:
			delete(live, s.Slug)
			delete(under, s.Slug)
		}
		if len(live) == 0 || g.r.IntN(3) == 0 {
			continue
		}
		slug := pick(g, slices.Sorted(maps.Keys(live)))
		if under[slug] == nil {
			under[slug] = new(rollout)
			p := live[slug]
			switch g.r.IntN(3) {
			case 0:
				p.Selector = g.Selector()
			case 1:
				p.Rules = g.rulesOf(p, g.ruleCount())
			default:
				p.Selector, p.Rules = g.Selector(), g.rulesOf(p, g.ruleCount())
			}
			out = append(out, Step{Kind: Stage, Why: "beside the head", Slug: slug, Policy: p})
			live[slug] = p // if it comes to that
			continue
		}
		step := g.move(slug, under[slug])
		if out = append(out, step); step.Kind == Abort || step.Kind == Stop && under[slug].abort || under[slug].opened > under[slug].waves {
			delete(under, slug)
		}
	}
	return out
}

// move is the next step of a rollout.
func (g *Gen) move(slug string, r *rollout) Step {
	switch {
	case r.opened == 0 && g.r.IntN(8) > 0:
		r.opened = 1
		r.abort = g.r.IntN(2) == 0
		s := Step{Kind: Promote, Why: "with waves", Slug: slug, Abort: r.abort}
		for range g.r.IntN(4) {
			s.Waves = append(s.Waves, g.Clause())
		}
		r.waves = len(s.Waves)
		return s
	case r.opened == 0 || g.r.IntN(6) == 0:
		return g.end(slug, r)
	}
	r.opened++
	r.stopped = false
	return Step{Kind: Open, Why: "the next", Slug: slug, Wave: r.opened}
}

func (g *Gen) end(slug string, r *rollout) Step {
	if r.opened > 0 && !r.stopped && g.r.IntN(2) == 0 {
		r.stopped = true
		return Step{Kind: Stop, Why: "too many refused", Slug: slug, Wave: r.opened}
	}
	return Step{Kind: Abort, Why: "not wanted", Slug: slug}
}

// rollout writes down a step of one.
func (s *Scribe) rollout(e *eventJSON, step Step) {
	h := s.mustHead(step)
	e.PolicyID = h.policy
	if step.Kind == Stage {
		e.Type, e.Revision = "policy_revision_staged", s.revisionOf(step)
		e.Revision.ParentID = &h.revision
		h.staged = e.Revision.ID
		s.heads[step.Slug] = h
		return
	}
	e.RevisionID = h.staged
	switch step.Kind {
	case Promote:
		applied, refused := 95, 1
		waves := slices.Clone(step.Waves)
		if waves == nil {
			waves = []string{}
		}
		e.Type, e.Waves, e.Applied, e.Refused = "policy_revision_promoted", &waves, &applied, &refused
		if h.waves = len(waves); step.Abort {
			e.OnRefusal = "abort"
		}
		if h.waves == 0 {
			h.revision = h.staged
		}
	case Open:
		if e.Type, e.Wave = "policy_wave_opened", step.Wave; step.Wave > h.waves {
			h.revision = h.staged
		}
	case Stop:
		e.Type, e.Wave, e.Reason = "policy_rollout_stopped", step.Wave, step.Why
	case Abort:
		e.Type, e.Reason = "policy_rollout_aborted", step.Why
	}
	s.heads[step.Slug] = h
}
