package oracle

import (
	"encoding/json"
	"slices"
)

// trial is a revision beside the head of a policy: staged, or on its way to the
// nodes wave by wave.
type trial struct {
	facts
	waves  [][]clause
	opened int // 0: it is only staged
	abort  bool
}

// underWay reports whether some nodes have it.
func (x *trial) underWay() bool { return x != nil && x.opened > 0 }

// reached reports whether an open wave has the labels.
func (x *trial) reached(labels map[string]string) bool {
	return x.underWay() && slices.ContainsFunc(x.waves[:x.opened], func(w []clause) bool { return holds(w, labels) })
}

// rollout applies an event about the rollout of a revision.
func (p *Plane) rollout(e event) error {
	x := p.trials[e.PolicyID]
	switch e.Type {
	case "policy_revision_staged":
		f, err := factsOf(p.policies[e.PolicyID].project, e.Revision.ID, e.Revision.Body)
		if err != nil {
			return err
		}
		if p.trials == nil {
			p.trials = map[string]*trial{}
		}
		p.trials[e.PolicyID] = &trial{facts: f}
		return nil
	case "policy_revision_promoted":
		for _, text := range e.Waves {
			w, err := parse(text)
			if err != nil {
				return err
			}
			x.waves = append(x.waves, w)
		}
		x.abort = e.OnRefusal == "abort"
	case "policy_rollout_stopped", "policy_rollout_aborted":
		if e.Type == "policy_rollout_stopped" && !x.abort {
			return nil // it stays where it is
		}
		delete(p.trials, e.PolicyID)
		return nil
	}
	if x.opened++; x.opened > len(x.waves) {
		p.policies[e.PolicyID] = x.facts
		delete(p.trials, e.PolicyID)
	}
	return nil
}

// says is what a policy says to nodes with these labels, whether or not it is for
// them.
func (p *Plane) says(id string, labels map[string]string) (facts, bool) {
	if x := p.trials[id]; x.reached(labels) {
		return x.facts, true
	}
	f, ok := p.policies[id]
	return f, ok
}

// rolloutCase is what a court knows of a rollout that has not ended.
type rolloutCase struct {
	revision, parent string
	waves, opened    int
	abort, halted    bool
}

// rollout judges an event about the rollout of a revision.
func (c *Court) rollout(e claim) (code string) {
	p := c.policies[e.PolicyID]
	var r revisionClaim
	if e.Type == "policy_revision_staged" && json.Unmarshal(e.Revision, &r) != nil {
		return "undecodable"
	}
	switch {
	case p != nil && p.project != e.ProjectID:
		return "policy_not_owned"
	case p != nil && p.moves[e.ID]:
		return ""
	case e.Type == "policy_revision_staged" && !r.holds():
		return "invalid"
	case p == nil, p.deleted:
		return "revision_conflict"
	}
	if e.Type == "policy_revision_staged" {
		switch {
		case p.revisions[r.ID]:
			return ""
		case p.rollout.underWay():
			return "rollout_under_way"
		case r.ParentID == nil || *r.ParentID != p.head:
			return "revision_conflict"
		}
		p.rollout = &rolloutCase{revision: r.ID, parent: *r.ParentID}
	} else if code := p.move(e); code != "" {
		return code
	}
	if p.moves == nil {
		p.moves = map[string]bool{}
	}
	p.moves[e.ID] = true
	return ""
}

func (r *rolloutCase) underWay() bool { return r != nil && r.opened > 0 }

// move judges what happens to what is staged.
func (p *policyCase) move(e claim) (code string) {
	r := p.rollout
	this := r != nil && r.revision == e.RevisionID
	switch e.Type {
	case "policy_revision_promoted":
		switch {
		case r.underWay():
			return "rollout_under_way"
		case !this:
			return "not_staged"
		case r.parent != p.head:
			return "revision_conflict"
		}
		r.waves, r.abort = len(e.Waves), e.OnRefusal == "abort"
	case "policy_rollout_aborted":
		if !this {
			return "no_rollout"
		}
		p.rollout = nil
		return ""
	default:
		next := 1
		if e.Type == "policy_rollout_stopped" {
			next = 0
		}
		switch {
		case !this || !r.underWay():
			return "no_rollout"
		case e.Wave != r.opened+next, r.halted && (next == 0 || e.Gated):
			return "wave_conflict"
		}
		if r.halted = next == 0; r.halted {
			if r.abort {
				p.rollout = nil
			}
			return ""
		}
	}
	if r.opened++; r.opened > r.waves {
		p.head, p.revisions[r.revision], p.rollout = r.revision, true, nil
	}
	return ""
}
