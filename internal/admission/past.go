package admission

import (
	"context"
	"errors"
	"slices"

	"github.com/edictdev/edict/policy"
)

// Version is a policy as it was: the id, and the log sequence of its last change.
type Version struct {
	ID      string
	Version uint64
}

// Judged are the policies that took part in the decision, shadow policies included.
// Without all of them the decision cannot be made again: false.
func (r *Record) Judged() (took []Version, all bool) {
	for _, p := range r.Policies {
		took = append(took, Version{p.ID, p.Version})
	}
	for _, p := range r.Shadows {
		took = append(took, Version{p.ID, p.Version})
	}
	// Workers of a release before named none, and shadows without their versions.
	old := func(p Version) bool { return p.Version == 0 }
	return took, len(took) > 0 && !slices.ContainsFunc(took, old) && r.PoliciesLeftOut+r.ShadowsLeftOut == 0
}

// Past is the set of policies as they were, as of a version. What is no longer so is read
// and compiled for the author who asks; errors are those of read and of [Registry.Draft].
// Code that compiles no longer fails what it matches, as it does in the present set.
func (r *Registry) Past(ctx context.Context, author string, version uint64, of []Version, read func(context.Context, Version) (policy.AdmissionPolicy, error)) (*Snapshot, error) {
	now, err := r.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	past := &Snapshot{version: version}
	for _, v := range of {
		if f, ok := now.byID.get(v.ID); ok && f.version == v.Version {
			past.put(f)
			continue
		}
		d, err := read(ctx, v)
		if err != nil {
			return nil, err
		}
		p := PolicyOf(policy.AdmissionPolicyID(v.ID), d)
		c, err := r.Draft(ctx, author, p)
		switch {
		case errors.Is(err, ErrBusy), ctx.Err() != nil:
			return nil, err
		case err != nil:
			c = Broken(p, why(err))
		}
		past.put(filed{c, v.Version})
	}
	return past, nil
}
