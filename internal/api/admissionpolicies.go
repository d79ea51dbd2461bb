package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

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
	return a.write(c, admissionWrite{id: id, document: d, expected: new(uint64), role: "create:admission event"})
}

// list returns the policies for which keep is true, by id.
func (a *admissionPolicies) list(keep func(projector.AdmissionPolicy) bool) (items []projector.AdmissionPolicy) {
	a.model.Read(func(v *projector.View) { items = v.AdmissionPolicies(keep) })
	return items
}

// write checks a policy and makes it the present one, or, in a dry run,
// returns it as it would be, with version 0.
func (a *admissionPolicies) write(c *call, w admissionWrite) (stored projector.AdmissionPolicy, err error) {
	id, d, expected := w.id, w.document, w.expected
	stored = projector.AdmissionPolicy{ID: id, Document: &d, CreatedBy: c.principal}
	dry, err := c.queryFlag("dry_run")
	if err != nil {
		return stored, err
	}
	if *expected == 0 {
		if err := checkName("/name", d.Name); err != nil {
			return stored, err
		}
	}
	if err := a.check(c, id, d); err != nil {
		return stored, err
	}
	seen := expected
	if c.key != "" && !dry {
		seen = nil // a retry of a write that was made finds its own version
	}
	err = a.reads.check(c, func(v *projector.View) error {
		return a.taken(v, policy.AdmissionPolicyUpdated{Policy: id, Document: d, Expected: seen})
	})
	if err != nil || dry {
		return stored, err
	}
	e := policy.AdmissionPolicyUpdated{Policy: id, Expected: expected, CreatedBy: c.principal, Document: d}
	if e.ID, err = a.writes.id(c, uuid.Nil, w.role); err != nil {
		return stored, err
	}
	if _, err := a.writes.append(c, streams.Append{Event: e, Again: w.again && c.key != ""}, true); err != nil {
		return stored, err
	}
	a.model.Read(func(v *projector.View) {
		if now, ok := v.AdmissionPolicy(id); ok {
			stored = now
		}
	})
	return stored, nil
}

// check compiles the policy and runs its tests.
func (a *admissionPolicies) check(c *call, id policy.AdmissionPolicyID, d policy.AdmissionPolicy) error {
	ctx := c.r.Context()
	engine := admission.PolicyOf(id, d)
	if _, err := a.registry.Compile(ctx, engine); err != nil {
		return uncompiled(err)
	}
	tests, err := admission.ParseTests(d.TestCases)
	var unread admission.TestFaults
	if errors.As(err, &unread) {
		pr := problem(http.StatusUnprocessableEntity, CodeInvalidTestCases, "%v", unread)
		for _, f := range unread {
			pr.Errors = append(pr.Errors, resource.Fault{Pointer: fmt.Sprintf("/test_cases/%d", f.Index), Code: CodeInvalidTestCases, Detail: f.Message})
		}
		return pr
	}
	if len(tests) == 0 {
		return nil
	}
	engine.Tests = tests
	compiled, err := admission.Compile(ctx, engine)
	if err != nil {
		return uncompiled(err)
	}
	var faults []resource.Fault
	for i, r := range a.registry.Engine().Test(ctx, compiled) {
		if r.Failure != "" {
			faults = append(faults, resource.Fault{Pointer: fmt.Sprintf("/test_cases/%d", i), Code: CodeTestsFailed, Detail: r.Name + ": " + r.Failure})
		}
	}
	if err := ctx.Err(); err != nil || len(faults) == 0 {
		return err
	}
	pr := problem(http.StatusUnprocessableEntity, CodeTestsFailed, "%d of %d test cases fail; the first: %s", len(faults), len(tests), faults[0].Detail)
	pr.Errors = faults
	return pr
}

// uncompiled lists every fault of the code with its place.
func uncompiled(err error) error {
	var faults *admission.CompileError
	if !errors.As(err, &faults) {
		return err
	}
	pr := problem(http.StatusBadRequest, CodeInvalidRego, "the Rego code does not compile: %s", faults.Faults[0])
	for _, f := range faults.Faults {
		pr.Errors = append(pr.Errors, resource.Fault{Pointer: "/rego_code", Code: f.Code, Detail: fmt.Sprintf("%d:%d: %s", f.Row, f.Col, f.Message)})
	}
	return withCause(pr, err)
}

// taken asks for the fold's verdict, so that what cannot be is not written. The
// fold judges all the same.
func (a *admissionPolicies) taken(v *projector.View, e policy.AdmissionPolicyUpdated) error {
	name, priority := v.AdmissionHolders(e.Document)
	switch a.writes.refusal(v, e) {
	case projector.CodePolicyIDUsed:
		return problem(http.StatusConflict, projector.CodePolicyIDUsed, "policy id %s is in use: choose another", e.Policy)
	case projector.CodeRevisionConflict:
		return admissionMoved(v, e.Policy, *e.Expected)
	case projector.CodeNameTaken:
		return problem(http.StatusConflict, projector.CodeNameTaken, "the name %q belongs to policy %s of this level and owner; choose another", e.Document.Name, name)
	case projector.CodePriorityTaken:
		return problem(http.StatusConflict, projector.CodePriorityTaken, "priority %d belongs to policy %s of this level and owner; choose another", e.Document.Priority, priority)
	}
	return nil
}

// admissionMoved says which version a policy is at, which is not the expected one.
func admissionMoved(v *projector.View, id policy.AdmissionPolicyID, expected uint64) error {
	now, live := v.AdmissionPolicy(id)
	if !live {
		return admissionNotFound(id)
	}
	return problem(http.StatusConflict, projector.CodeRevisionConflict, "policy %s is at version %d, not %d; read it, then send the change again", id, now.Version, expected)
}

func admissionNotFound(id policy.AdmissionPolicyID) error {
	return problem(http.StatusNotFound, CodePolicyNotFound, "there is no admission policy %s", id)
}

// read reads the policy that the path names.
func (a *admissionPolicies) read(c *call) (stored projector.AdmissionPolicy, err error) {
	id := policy.AdmissionPolicyID(c.r.PathValue("admission"))
	err = a.reads.check(c, func(v *projector.View) error {
		var ok bool
		if stored, ok = v.AdmissionPolicy(id); !ok {
			return admissionNotFound(id)
		}
		return nil
	})
	return stored, err
}

// change makes a policy what change makes of the present one. Without
// If-Match a change that came between is taken into account, not overwritten.
func (a *admissionPolicies) change(c *call, change func(d *policy.AdmissionPolicy) error) (stored projector.AdmissionPolicy, err error) {
	match, err := c.ifMatch()
	if err != nil {
		return stored, err
	}
	try := func(again bool) (err error) {
		if stored, err = a.read(c); err != nil {
			return err
		}
		d, expected := *stored.Document, stored.Version
		if match != nil {
			expected = *match
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
		w := admissionWrite{id: stored.ID, document: d, expected: &expected, role: fmt.Sprintf("change:%s:admission event", stored.ID), again: again}
		present := stored
		stored, err = a.write(c, w)
		var pr *resource.Problem
		if c.key != "" && errors.As(err, &pr) && pr.Code == projector.CodeStaleEvent {
			// A change under this key was made before, and another since.
			made := policy.AdmissionPolicyUpdated{Policy: present.ID}
			if made.ID, err = a.writes.id(c, uuid.Nil, w.role); err != nil {
				return err
			}
			stored, err = present, a.writes.sameBody(c.r.Context(), made, c.asked)
		}
		return err
	}
	if match != nil {
		return stored, try(false)
	}
	err = a.writes.insist(c, try)
	return stored, err
}

func (a *admissionPolicies) delete(c *call) error {
	match, err := c.ifMatch()
	if err != nil {
		return err
	}
	id := policy.AdmissionPolicyID(c.r.PathValue("admission"))
	e := policy.AdmissionPolicyDeleted{Policy: id, Expected: match}
	if e.ID, err = a.writes.id(c, uuid.Nil, "delete:admission:"+string(id)); err != nil {
		return err
	}
	return a.writes.remove(c, e, func(v *projector.View) error {
		if _, ok := v.AdmissionPolicy(id); !ok {
			return admissionNotFound(id)
		}
		if a.writes.refusal(v, policy.AdmissionPolicyDeleted{Policy: id, Expected: match}) == projector.CodeRevisionConflict {
			return admissionMoved(v, id, *match)
		}
		return nil
	})
}

// judge runs a request through the chain, of which the body has the payload at
// a JSON pointer. The error is a problem; with ?explain=full both have the
// explanation.
func (a *admissionPolicies) judge(c *call, payload string, r admission.Request) (admission.Result, *resource.Explanation, error) {
	full := false
	switch text := c.r.URL.Query().Get("explain"); text {
	case "":
	case "full":
		full = true
	default:
		return admission.Result{}, nil, broken(http.StatusBadRequest, CodeBadParameter, "/explain", "explain is full or absent, not %q", text)
	}
	result, err := a.registry.Evaluate(c.r.Context(), r, admission.Options{Explain: full})
	var explain *resource.Explanation
	if full && result.Steps != nil {
		explain = &resource.Explanation{SnapshotVersion: result.SnapshotVersion, Steps: make([]json.RawMessage, len(result.Steps))}
		for i, step := range result.Steps {
			b, err := json.Marshal(step)
			if err != nil {
				return result, nil, fmt.Errorf("encode step %d: %w", i, err)
			}
			explain.Steps[i] = b
		}
	}
	if err == nil {
		return result, explain, nil
	}
	err = unadmitted(err, payload)
	var pr *resource.Problem
	if errors.As(err, &pr) {
		pr.Explain = explain
	}
	return result, explain, err
}
