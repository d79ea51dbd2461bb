package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// admissionPolicies are what can be done with admission policies, whichever
// surface asks for it.
type admissionPolicies struct {
	model    views
	reads    *reads
	writes   *writes
	registry *admission.Registry
	authors  authors
	// counting is who counts a user's policies and adds another: the fold counts none.
	counting *semaphore.Weighted
}

// admissionWrite is what write is to write.
type admissionWrite struct {
	id       policy.AdmissionPolicyID
	document policy.AdmissionPolicy
	expected *uint64 // as in the event
	role     string  // of the event's id
	again    bool    // the log has the event, and refused it
}

// newID makes the id of a new policy.
func (a *admissionPolicies) newID(c *call) (policy.AdmissionPolicyID, error) {
	id, err := a.writes.id(c, uuid.Nil, "create:admission policy")
	return policy.AdmissionPolicyID(id.String()), err
}

// create registers a policy, or, in a dry run, returns it with version 0.
func (a *admissionPolicies) create(c *call, id policy.AdmissionPolicyID, d policy.AdmissionPolicy) (projector.AdmissionPolicy, error) {
	if err := a.authors.may(c, d); err != nil {
		return projector.AdmissionPolicy{}, err
	}
	if made, ok, err := a.madeBefore(c, id, "create:admission event"); ok || err != nil {
		return made, err
	}
	return a.write(c, admissionWrite{id: id, document: d, expected: new(uint64), role: "create:admission event"})
}

// list returns the policies for which keep is true and that the caller may see, by
// id.
func (a *admissionPolicies) list(c *call, keep func(projector.AdmissionPolicy) bool) (items []projector.AdmissionPolicy) {
	a.model.Read(func(v *projector.View) {
		items = v.Admission().Policies(func(x projector.AdmissionPolicy) bool { return a.authors.sees(c, x) && keep(x) })
	})
	return items
}

// write checks a policy and makes it the present one, or, in a dry run,
// returns it as it would be, with version 0.
func (a *admissionPolicies) write(c *call, w admissionWrite) (stored projector.AdmissionPolicy, err error) {
	id, d, expected := w.id, w.document, w.expected
	stored = projector.AdmissionPolicy{ID: id, Document: &d, CreatedBy: c.principal}
	if *expected == 0 {
		if err := checkName("/name", d.Name); err != nil {
			return stored, err
		}
	}
	if err := a.check(c, id, d); err != nil {
		return stored, err
	}
	if *expected == 0 && ownedByUser(d) && !c.dry {
		if err := a.awaitTurn(c); err != nil {
			return stored, err
		}
		defer a.counting.Release(1)
	}
	seen := expected
	if c.key != "" && !c.dry {
		seen = nil // a retry of a write that was made finds its own version
	}
	err = a.reads.check(c, func(v *projector.View) error {
		return a.taken(v, policy.AdmissionPolicyUpdated{Policy: id, Document: d, Expected: seen})
	})
	if err != nil || c.dry {
		return stored, err
	}
	e := policy.AdmissionPolicyUpdated{Policy: id, Expected: expected, CreatedBy: c.principal, Document: d}
	if e.ID, err = a.writes.id(c, uuid.Nil, w.role); err != nil {
		return stored, err
	}
	v, err := a.writes.append(c, streams.Append{Event: e, Again: w.again && c.key != ""}, true)
	a.model.Read(func(v *projector.View) {
		if now, ok := v.Admission().Policy(id); ok && err == nil {
			stored = now
		}
	})
	if err != nil || stored.Version != v.Seq {
		// Under its key it was made while this request was under way, or at another worker.
		if made, ok, failed := a.madeBefore(c, id, w.role); ok {
			return made, failed
		}
	}
	return stored, err
}

// awaitTurn waits until nobody else counts a user's policies, as long as a write may take.
func (a *admissionPolicies) awaitTurn(c *call) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), a.writes.patience)
	defer cancel()
	if err := a.counting.Acquire(ctx, 1); err != nil {
		return problem(http.StatusServiceUnavailable, CodeLogUnavailable,
			"other policies of users are being written, and the turn of this one did not come (%v): nothing was written", err)
	}
	return nil
}

// madeBefore finds the write that was made under this key, at whichever worker, and what
// it made of the policy, whatever came after. The error is that the write had another body.
func (a *admissionPolicies) madeBefore(c *call, id policy.AdmissionPolicyID, role string) (made projector.AdmissionPolicy, ok bool, err error) {
	if c.key == "" || c.dry || a.writes.Event == nil || a.writes.NextOf == nil {
		return made, false, nil
	}
	e := policy.AdmissionPolicyUpdated{Policy: id}
	if e.ID, err = a.writes.id(c, uuid.Nil, role); err != nil {
		return made, false, err
	}
	there := false
	a.model.Read(func(v *projector.View) {
		verdict := v.WouldAccept(e, a.writes.clock())
		ok = verdict.Duplicate || verdict.Rejection != nil && verdict.Rejection.Code == projector.CodeStaleEvent
		made, there = v.Admission().Policy(id)
	})
	if !ok || !there { // one that was deleted since is not there again
		return made, false, nil
	}
	m, err := a.writes.made(c.r.Context(), e)
	if errors.Is(err, streams.ErrNotFound) {
		return made, true, nil // the log cannot say what it was
	}
	if err != nil {
		return made, true, unread(err)
	}
	was, _ := policy.Decode(m.Body)
	first, ok := was.(policy.AdmissionPolicyUpdated)
	if !ok {
		return made, false, nil
	}
	if made.CreatedAt.After(m.Time) { // it was deleted and made again since
		made.CreatedAt = m.Time
	}
	made.ID, made.Document, made.CreatedBy, made.Version, made.UpdatedAt = id, &first.Document, first.CreatedBy, m.Seq, m.Time
	return made, true, sameAs(m, c.asked)
}

func admissionNotFound(id policy.AdmissionPolicyID) error {
	return problem(http.StatusNotFound, CodePolicyNotFound, "there is no admission policy %s", id)
}

// read reads the policy that the path names.
func (a *admissionPolicies) read(c *call) (stored projector.AdmissionPolicy, err error) {
	id := policy.AdmissionPolicyID(c.r.PathValue("admission"))
	err = a.reads.check(c, func(v *projector.View) error {
		var ok bool
		if stored, ok = v.Admission().Policy(id); !ok || !a.authors.sees(c, stored) {
			return admissionNotFound(id)
		}
		return nil
	})
	return stored, err
}

// change makes a policy what change makes of the present one. Without
// If-Match a change that came between is taken into account, not overwritten.
func (a *admissionPolicies) change(c *call, change func(d *policy.AdmissionPolicy) error) (stored projector.AdmissionPolicy, err error) {
	only, err := c.condition()
	if err != nil {
		return stored, err
	}
	try := func(again bool) (err error) {
		if stored, err = a.read(c); err != nil {
			return err
		}
		if err := a.authors.may(c, *stored.Document); err != nil {
			return err
		}
		role := fmt.Sprintf("change:%s:admission event", stored.ID)
		if made, ok, err := a.madeBefore(c, stored.ID, role); ok || err != nil {
			stored = made
			return err
		}
		d := *stored.Document
		expected, err := only.version(stored.Version)
		if err != nil {
			return err
		}
		if err := change(&d); err != nil {
			return err
		}
		if d.Name != stored.Document.Name {
			if err := checkName("/name", d.Name); err != nil {
				return err
			}
		}
		if expected == stored.Version && d.Equal(*stored.Document) {
			return nil
		}
		stored, err = a.write(c, admissionWrite{id: stored.ID, document: d, expected: &expected, role: role, again: again})
		return err
	}
	if only.named() {
		return stored, only.lost(try(false))
	}
	err = a.writes.insist(c, try)
	return stored, err
}

func (a *admissionPolicies) delete(c *call) error {
	only, err := c.condition()
	if err != nil {
		return err
	}
	id := policy.AdmissionPolicyID(c.r.PathValue("admission"))
	if err := a.mayDelete(c); err != nil {
		return err
	}
	e := policy.AdmissionPolicyDeleted{Policy: id}
	if e.ID, err = a.writes.id(c, uuid.Nil, "delete:admission:"+string(id)); err != nil {
		return err
	}
	return a.writes.removeIf(c, e, only, func(v *projector.View) (string, error) {
		x, ok := v.Admission().Policy(id)
		if !ok || c.who != nil && !c.who.MayAuthor(x.Document.Level, x.Document.Tenant, x.Document.User) { // it may have come since
			return "", admissionNotFound(id)
		}
		return versionTag(x.Version), nil
	})
}

// mayDelete lets those delete a policy who may write it. One that is not there may
// be deleted again under the key of the first time; what else that needs, delete says.
func (a *admissionPolicies) mayDelete(c *call) error {
	if c.who == nil {
		return nil
	}
	stored, err := a.read(c)
	if err == nil {
		return a.authors.may(c, *stored.Document)
	}
	var pr *resource.Problem
	if !errors.As(err, &pr) || pr.Code != CodePolicyNotFound || c.key == "" {
		return err
	}
	// One that may not be seen is answered as one that is not there; only the latter
	// was perhaps deleted under this key.
	id, there := policy.AdmissionPolicyID(c.r.PathValue("admission")), false
	a.reads.model.Read(func(v *projector.View) { _, there = v.Admission().Policy(id) })
	if there {
		return err
	}
	return nil
}
