package admission

import (
	"fmt"
	"maps"
	"strings"
)

// Misfit is one reason why a payload is not what the request asks for.
type Misfit struct {
	Pointer string // a JSON pointer into the payload
	Unknown bool   // what is there is nothing that such a request can have
	Reason  string
}

func (m Misfit) String() string { return m.Pointer + ": " + m.Reason }

// UnfitError is a patch after which the payload is not what the request asks
// for.
type UnfitError struct {
	PolicyID   string
	PolicyName string
	Misfits    []Misfit // at least one
}

func (e *UnfitError) Error() string {
	reasons := make([]string, len(e.Misfits))
	for i, m := range e.Misfits {
		reasons[i] = m.String()
	}
	return fmt.Sprintf("admission policy %q patches the request into one that is not valid: %s", e.PolicyName, strings.Join(reasons, "; "))
}

// Patch is what one policy changed, and what of its patch the request could not
// have.
type Patch struct {
	PolicyID   string
	PolicyName string
	Changes    []Change
	Dropped    []string // JSON pointers
}

// namesService says whether the policy chooses requests by their service type:
// then it is to know what they can have.
func (p *Policy) namesService() bool {
	return p.ServiceType != "" || p.LabelSelector[ServiceTypeLabel] != ""
}

// fit patches the payload. Of a policy for every service type what this one does
// not have is left out. Whatever else does not fit is the policy's fault, unless
// a later policy mends it.
func (c *chain) fit(p *Compiled, d *decision) (after map[string]any, dropped []string) {
	after = merge(c.payload, d.patch)
	fits := c.request.Fits
	if fits == nil {
		return after, nil
	}
	misfits := fits(after)
	if !p.policy.namesService() {
		for _, m := range misfits {
			at, err := parsePath(m.Pointer)
			if err != nil || !m.Unknown {
				continue
			}
			if patch, cut := prune(d.patch, at); cut {
				d.patch, dropped = patch, append(dropped, m.Pointer)
			}
		}
		if len(dropped) > 0 {
			after = merge(c.payload, d.patch)
			misfits = fits(after)
		}
	}
	switch {
	case len(misfits) == 0:
		c.unfit = nil
	case c.unfit == nil:
		c.unfit = &UnfitError{PolicyID: p.policy.ID, PolicyName: p.policy.Name, Misfits: misfits}
	}
	return after, dropped
}

// prune is a patch that does not set what is at the path; false when it does not
// set it.
func prune(patch map[string]any, at path) (map[string]any, bool) {
	v, has := patch[at[0]]
	if !has {
		return patch, false
	}
	pruned := maps.Clone(patch)
	if len(at) == 1 {
		delete(pruned, at[0])
		return pruned, true
	}
	inner, ok := v.(map[string]any)
	if !ok {
		return patch, false
	}
	if inner, ok = prune(inner, at[1:]); !ok {
		return patch, false
	}
	if pruned[at[0]] = inner; len(inner) == 0 {
		delete(pruned, at[0])
	}
	return pruned, true
}

// patchedBy notes what a policy's patch did.
func (c *chain) patchedBy(p *Compiled, before, after map[string]any, dropped []string, step *Step) {
	if step == nil && c.request.Fits == nil {
		return
	}
	diff := changes(nil, before, after)
	if step != nil {
		step.Diff, step.Dropped = diff, dropped
	}
	if c.request.Fits != nil && len(diff)+len(dropped) > 0 {
		c.patches = append(c.patches, Patch{p.policy.ID, p.policy.Name, diff, dropped})
	}
}
