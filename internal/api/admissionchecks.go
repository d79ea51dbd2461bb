package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// check compiles the policy and runs its tests.
func (a *admissionPolicies) check(c *call, id policy.AdmissionPolicyID, d policy.AdmissionPolicy) error {
	ctx := c.r.Context()
	engine := admission.PolicyOf(id, d)
	compiled, err := a.registry.Draft(ctx, c.principal, engine)
	if errors.Is(err, admission.ErrBusy) {
		return problem(http.StatusServiceUnavailable, CodeTooManyAtOnce, "too many policies are compiled at once; try again")
	}
	if err != nil {
		return uncompiled(err)
	}
	if faults := compiled.Unmeetable(); faults != nil {
		return uncompiled(faults)
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
	var faults []resource.Fault
	for i, r := range a.registry.Engine().Test(ctx, compiled.WithTests(tests)) {
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
	if err := tooMany(v, e); err != nil {
		return err
	}
	name, priority := v.Admission().Holders(e.Document)
	switch a.writes.refusal(v, e) {
	case projector.CodePolicyIDUsed:
		return problem(http.StatusConflict, projector.CodePolicyIDUsed, "policy id %s is in use: choose another", e.Policy)
	case projector.CodeRevisionConflict:
		return admissionMoved(v, e.Policy, *e.Expected)
	case projector.CodeNameTaken:
		return problem(http.StatusConflict, projector.CodeNameTaken, "the name %q belongs to admission policy %s of this level and owner; choose another", e.Document.Name, name)
	case projector.CodePriorityTaken:
		return problem(http.StatusConflict, projector.CodePriorityTaken, "priority %d belongs to admission policy %s of this level and owner; choose another", e.Document.Priority, priority)
	}
	return nil
}

// mostUserPolicies is how many policies of one user there may be: each of them is
// compiled in every worker, and asked for each request of the user that it matches.
const mostUserPolicies = 100

func ownedByUser(d policy.AdmissionPolicy) bool { return d.Level == policy.User && d.User != "" }

// tooMany refuses a new policy of a user who has as many as a user may have. Those of
// the log count as they are: the fold refuses none.
func tooMany(v *projector.View, e policy.AdmissionPolicyUpdated) error {
	d := e.Document
	if !ownedByUser(d) {
		return nil
	}
	if _, there := v.Admission().Policy(e.Policy); there {
		return nil
	}
	own := v.Admission().Policies(func(x projector.AdmissionPolicy) bool {
		return x.Document.Level == policy.User && x.Document.User == d.User
	})
	if len(own) < mostUserPolicies {
		return nil
	}
	return problem(http.StatusConflict, CodeTooManyPolicies, "user %s has %d admission policies, and a user may have %d: change one, or delete one first", d.User, len(own), mostUserPolicies)
}

// admissionMoved says which version a policy is at, which is not the expected one.
func admissionMoved(v *projector.View, id policy.AdmissionPolicyID, expected uint64) error {
	now, live := v.Admission().Policy(id)
	if !live {
		return admissionNotFound(id)
	}
	return problem(http.StatusConflict, projector.CodeRevisionConflict, "admission policy %s is at version %d, not %d; read it, then send the change again", id, now.Version, expected)
}

// warnings are what is wrong with policies that are taken: of those that are in
// force, and of one that would be.
func (a *admissionPolicies) warnings(c *call) func(x projector.AdmissionPolicy) []resource.Fault {
	ctx := c.r.Context()
	now, err := a.registry.Snapshot(ctx)
	if err != nil {
		now = admission.NewSnapshot(0) // the client has left
	}
	return func(x projector.AdmissionPolicy) (found []resource.Fault) {
		compiled := now.Find(string(x.ID))
		if x.Version == 0 { // a dry run; it was compiled a moment ago
			compiled, _ = a.registry.Compile(ctx, admission.PolicyOf(x.ID, *x.Document))
		} else if now.Changed(string(x.ID)) != x.Version { // of other code
			return nil
		}
		if compiled == nil {
			return nil
		}
		for _, w := range compiled.Warnings(ctx) {
			found = append(found, resource.Fault{Pointer: "/rego_code", Code: w.Code, Detail: w.Detail})
		}
		return found
	}
}

// warned are the warnings of one policy, in headers, too.
func (a *admissionPolicies) warned(c *call, x projector.AdmissionPolicy) []resource.Fault {
	found := a.warnings(c)(x)
	for _, w := range found {
		c.warn("admission policy %s: %s", x.Document.Name, w.Detail)
	}
	return found
}
