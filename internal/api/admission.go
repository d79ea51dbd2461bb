package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

const (
	patternAdmissions = "/api/v1/policies"
	patternAdmission  = "/api/v1/policies/{admission}"
	patternEvaluate   = "/api/v1/engine/evaluate"
	cursorAdmissions  = "a"
	headerIfMatch     = "If-Match"
)

var (
	dryRunParam  = queryFlag("dry_run", "Check everything, its tests too, and write nothing.")
	ifMatchParam = Param{
		Name: headerIfMatch, In: "header", Summary: "The ETag that the change is for; another one by now is revision_conflict.",
		Schema: &openapi.Schema{Type: "string"},
	}
	explainParam = Param{
		Name: "explain", In: "query", Summary: "full: say what each policy did.",
		Schema: &openapi.Schema{Type: "string", Enum: []any{"full"}},
	}
)

// draftFaults are what an admission policy may break.
func draftFaults(more ...string) []string {
	return append(more, policy.CodeMissing, policy.CodeInvalidDisplayName, policy.CodeUnknownLevel, policy.CodeUnknownMode, policy.CodeInvalidPriority, policy.CodeOwnerForbidden,
		policy.CodeControlCharacter, policy.CodeTextTooLong, policy.CodeTooManyLabels, policy.CodeTooManyTestCases,
		CodeInvalidRego, CodeInvalidTestCases, CodeTestsFailed, projector.CodeNameTaken, projector.CodePriorityTaken)
}

func admissionRoutes() []Route {
	etag := []string{"ETag"}
	show := []Answer{{Status: http.StatusOK, MediaType: mediaJSON, Body: resource.AdmissionPolicy{}, Headers: etag}}
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternAdmissions, ID: "createAdmissionPolicy", Tag: "admission", Needs: access.AdminPlane,
			Summary:  "Register an admission policy",
			Params:   writeParams(dryRunParam),
			BodyType: mediaJSON, Body: resource.AdmissionDraft{},
			Answers: []Answer{
				{Status: http.StatusCreated, MediaType: mediaJSON, Body: resource.AdmissionID{}, Headers: []string{"Location"}},
				{Status: http.StatusOK, MediaType: mediaJSON, Body: resource.AdmissionID{}},
			},
			Problems: writeProblems(bodyProblems(draftFaults(projector.CodePolicyIDUsed, projector.CodeStaleEvent, CodeKeyReused)...)...),
			serve:    (*plane).createAdmission,
		},
		{
			Method: http.MethodGet, Pattern: patternAdmissions, ID: "listAdmissionPolicies", Tag: "admission", Needs: access.ReadPlane,
			Summary: "List admission policies by id",
			Params: []Param{
				limitParam, cursorParam, queryText("policy_type", "Only those of this level."), queryText("tenant_id", "Only those of this tenant."),
				queryText("user_id", "Only those of this user."), queryText("service_type", "Only those for this service type."), queryText("name", "Only those of this name."),
			},
			Answers: jsonAnswer(http.StatusOK, resource.Page[resource.AdmissionPolicy]{}), Problems: []string{CodeBadCursor, policy.CodeUnknownLevel},
			serve: (*plane).listAdmissions,
		},
		{
			Method: http.MethodGet, Pattern: patternAdmission, ID: "getAdmissionPolicy", Tag: "admission", Needs: access.ReadPlane,
			Summary: "Read an admission policy",
			Answers: show, Problems: readProblems(CodePolicyNotFound), serve: (*plane).getAdmission,
		},
		{
			Method: http.MethodPut, Pattern: patternAdmission, ID: "replaceAdmissionPolicy", Tag: "admission", Needs: access.AdminPlane,
			Summary:  "Replace what an admission policy matches, its priority and its code; its name, level and owner never change",
			Params:   writeParams(dryRunParam, ifMatchParam),
			BodyType: mediaJSON, Body: resource.AdmissionChange{}, Answers: show,
			Problems: writeProblems(bodyProblems(draftFaults(CodePolicyNotFound, CodeImmutableField, CodeBadHeader, projector.CodeRevisionConflict, CodeContended, projector.CodeStaleEvent, CodeKeyReused)...)...),
			serve:    (*plane).replaceAdmission,
		},
		{
			Method: http.MethodDelete, Pattern: patternAdmission, ID: "deleteAdmissionPolicy", Tag: "admission", Needs: access.AdminPlane,
			Summary: "Delete an admission policy; its id, name and priority are free again",
			Params:  writeParams(ifMatchParam), Answers: noContent(),
			Problems: writeProblems(CodePolicyNotFound, projector.CodeRevisionConflict, projector.CodeStaleEvent), serve: (*plane).deleteAdmission,
		},
		{
			Method: http.MethodPost, Pattern: patternEvaluate, ID: "evaluate", Tag: "admission", Needs: access.Evaluate,
			Summary:  "Run a request through the admission policies that match it",
			Params:   []Param{explainParam},
			BodyType: mediaJSON, Body: resource.Evaluation{}, Answers: jsonAnswer(http.StatusOK, resource.Admitted{}),
			Problems: bodyProblems(policy.CodeMissing, policy.CodeTextTooLong, policy.CodeControlCharacter, CodeInvalidPayload, CodeRejected, CodePolicyConflict, CodePolicyFailed, CodePolicyTimeout, CodeTooManyAtOnce),
			serve:    (*plane).evaluate,
		},
	}
}

func (p *plane) createAdmission(c *call) error {
	body, err := c.document()
	if err != nil {
		return err
	}
	d, err := policy.DecodeAdmissionPolicy(body)
	if err != nil {
		return invalid(err)
	}
	id, err := p.id(c, uuid.Nil, "create:admission policy")
	if err != nil {
		return err
	}
	stored, err := p.writeAdmission(c, admissionWrite{id: policy.AdmissionPolicyID(id.String()), document: d, expected: new(uint64), role: "create:admission event"})
	if err != nil {
		return err
	}
	if stored.Version == 0 { // a dry run
		return c.json(http.StatusOK, resource.AdmissionID{ID: id.String()})
	}
	c.w.Header().Set("Location", patternAdmissions+"/"+id.String())
	return c.json(http.StatusCreated, resource.AdmissionID{ID: id.String()})
}

// admissionWrite is what writeAdmission is to write.
type admissionWrite struct {
	id       policy.AdmissionPolicyID
	document policy.AdmissionPolicy
	expected *uint64 // as in the event
	role     string  // of the event's id
	again    bool    // the log has the event, and refused it
}

// writeAdmission checks a policy and makes it the present one, or, in a dry run,
// returns it as it would be, with version 0.
func (p *plane) writeAdmission(c *call, w admissionWrite) (stored projector.AdmissionPolicy, err error) {
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
	if err := p.checkAdmission(c, id, d); err != nil {
		return stored, err
	}
	seen := expected
	if c.key != "" && !dry {
		seen = nil // a retry of a write that was made finds its own version
	}
	err = p.settled(c, func(v *projector.View) error {
		return p.admissionTaken(v, policy.AdmissionPolicyUpdated{Policy: id, Document: d, Expected: seen})
	})
	if err != nil || dry {
		return stored, err
	}
	e := policy.AdmissionPolicyUpdated{Policy: id, Expected: expected, CreatedBy: c.principal, Document: d}
	if e.ID, err = p.id(c, uuid.Nil, w.role); err != nil {
		return stored, err
	}
	if _, err := p.append(c, streams.Append{Event: e, Again: w.again && c.key != ""}, true); err != nil {
		return stored, err
	}
	p.Model.Read(func(v *projector.View) {
		if now, ok := v.AdmissionPolicy(id); ok {
			stored = now
		}
	})
	return stored, nil
}

// checkAdmission compiles the policy and runs its tests.
func (p *plane) checkAdmission(c *call, id policy.AdmissionPolicyID, d policy.AdmissionPolicy) error {
	ctx := c.r.Context()
	engine := admission.PolicyOf(id, d)
	if _, err := p.Admission.Compile(ctx, engine); err != nil {
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
	for i, r := range p.Admission.Engine().Test(ctx, compiled) {
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
	return pr
}

// admissionTaken asks for the fold's verdict, so that what cannot be is not
// written. The fold judges all the same.
func (p *plane) admissionTaken(v *projector.View, e policy.AdmissionPolicyUpdated) error {
	name, priority := v.AdmissionHolders(e.Document)
	switch refusal(v, p.Clock(), e) {
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

// admissionMoved says what a policy is that is not at the version expected of it.
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

// admissionOf reads the policy that the path names.
func (p *plane) admissionOf(c *call) (stored projector.AdmissionPolicy, err error) {
	id := policy.AdmissionPolicyID(c.r.PathValue("admission"))
	err = p.settled(c, func(v *projector.View) error {
		var ok bool
		if stored, ok = v.AdmissionPolicy(id); !ok {
			return admissionNotFound(id)
		}
		return nil
	})
	return stored, err
}

func (p *plane) getAdmission(c *call) error {
	stored, err := p.admissionOf(c)
	if err != nil {
		return err
	}
	return c.answerAdmission(stored)
}

func (c *call) answerAdmission(stored projector.AdmissionPolicy) error {
	c.w.Header().Set("ETag", strconv.Quote(strconv.FormatUint(stored.Version, 10)))
	return c.json(http.StatusOK, showAdmission(stored))
}

// ifMatch is the version that a change is for, when it says.
func (c *call) ifMatch() (*uint64, error) {
	text := c.r.Header.Get(headerIfMatch)
	if text == "" || text == "*" {
		return nil, nil
	}
	n, err := strconv.ParseUint(strings.Trim(strings.TrimPrefix(text, "W/"), `"`), 10, 64)
	if err != nil || n == 0 {
		return nil, problem(http.StatusBadRequest, CodeBadHeader, "%s: %s is no ETag of a policy", headerIfMatch, text)
	}
	return &n, nil
}

// changeAdmission makes a policy what change makes of the present one. Without
// If-Match a change that came between is taken into account, not overwritten.
func (p *plane) changeAdmission(c *call, change func(d *policy.AdmissionPolicy) error) (stored projector.AdmissionPolicy, err error) {
	match, err := c.ifMatch()
	if err != nil {
		return stored, err
	}
	try := func(again bool) (err error) {
		if stored, err = p.admissionOf(c); err != nil {
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
		stored, err = p.writeAdmission(c, w)
		var pr *resource.Problem
		if c.key != "" && errors.As(err, &pr) && pr.Code == projector.CodeStaleEvent {
			// A change under this key was made before, and another since.
			made := policy.AdmissionPolicyUpdated{Policy: present.ID}
			if made.ID, err = p.id(c, uuid.Nil, w.role); err != nil {
				return err
			}
			stored, err = present, p.sameBody(c.r.Context(), made, c.asked)
		}
		return err
	}
	if match != nil {
		return stored, try(false)
	}
	err = p.insist(c, try)
	return stored, err
}

func (p *plane) replaceAdmission(c *call) error {
	body, err := c.document()
	if err != nil {
		return err
	}
	stored, err := p.changeAdmission(c, func(d *policy.AdmissionPolicy) error {
		next, err := policy.DecodeAdmissionChange(body, *d)
		if err != nil {
			return invalid(err)
		}
		for _, f := range [...]struct{ field, was, is string }{
			{"name", d.Name, next.Name},
			{"policy_type", string(d.Level), string(next.Level)},
			{"tenant_id", d.Tenant, next.Tenant},
			{"user_id", d.User, next.User},
		} {
			if f.was != f.is {
				return broken(http.StatusUnprocessableEntity, CodeImmutableField, "/"+f.field, "%s is %q and never changes; leave it out, or make another policy", f.field, f.was)
			}
		}
		*d = next
		return nil
	})
	if err != nil {
		return err
	}
	return c.answerAdmission(stored)
}

func (p *plane) deleteAdmission(c *call) error {
	match, err := c.ifMatch()
	if err != nil {
		return err
	}
	id := policy.AdmissionPolicyID(c.r.PathValue("admission"))
	e := policy.AdmissionPolicyDeleted{Policy: id, Expected: match}
	if e.ID, err = p.id(c, uuid.Nil, "delete:admission:"+string(id)); err != nil {
		return err
	}
	return p.remove(c, e, func(v *projector.View) error {
		if _, ok := v.AdmissionPolicy(id); !ok {
			return admissionNotFound(id)
		}
		if refusal(v, p.Clock(), policy.AdmissionPolicyDeleted{Policy: id, Expected: match}) == projector.CodeRevisionConflict {
			return admissionMoved(v, id, *match)
		}
		return nil
	})
}

func (p *plane) listAdmissions(c *call) error {
	limit, above, err := c.pageOf(cursorAdmissions)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	var level policy.Level
	if text := q.Get("policy_type"); text != "" {
		var ok bool
		if level, ok = policy.ParseLevel(text); !ok {
			return broken(http.StatusUnprocessableEntity, policy.CodeUnknownLevel, "/policy_type", "%q is no level; use Global, Tenant or User", text)
		}
	}
	var items []projector.AdmissionPolicy
	p.Model.Read(func(v *projector.View) {
		items = v.AdmissionPolicies(func(x projector.AdmissionPolicy) bool {
			d := x.Document
			return string(x.ID) > above && (level == "" || d.Level == level) && asked(q["tenant_id"], d.Tenant) &&
				asked(q["user_id"], d.User) && asked(q["service_type"], d.ServiceType) && asked(q["name"], d.Name)
		})
	})
	items = items[:min(len(items), limit+1)]
	end := func(x projector.AdmissionPolicy) string { return string(x.ID) }
	return c.json(http.StatusOK, cut(items, limit, cursorAdmissions, end, showAdmission))
}

// asked reports whether a filter lets a value pass; no filter does.
func asked(filter []string, value string) bool { return len(filter) == 0 || filter[0] == value }

func showAdmission(x projector.AdmissionPolicy) resource.AdmissionPolicy {
	d := x.Document
	out := resource.AdmissionPolicy{
		ID: string(x.ID), Name: d.Name, Description: d.Description, PolicyType: string(d.Level), TenantID: d.Tenant, UserID: d.User,
		ServiceType: d.ServiceType, LabelSelector: d.Labels, Priority: int(d.Priority), Enabled: !d.Disabled, Mode: string(d.Mode), RegoCode: d.Rego,
		Version: x.Version, CreatedAt: x.CreatedAt, UpdatedAt: x.UpdatedAt, CreatedBy: x.CreatedBy,
	}
	for _, t := range d.TestCases {
		out.TestCases = append(out.TestCases, json.RawMessage(t))
	}
	return out
}
