package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodeAdmissionPolicy reads a policy as authors send it: the document of an
// admission_policy_updated. What is absent has its default: priority 500,
// enabled, mode enforce. The error is Violations, every fault at once.
func DecodeAdmissionPolicy(body []byte) (p AdmissionPolicy, err error) {
	faults := read(body, func(r *reader) { p = readAdmissionPolicy(r) })
	return p, faults.orNil()
}

// DecodeAdmissionChange reads what replaces the policy p (003-policy-engine,
// PUT): what is absent has its default, as in a new policy. What never changes may be
// absent, too, and is p's then. What the plane itself says of a policy, its version and
// times, may be there and is not read; id is empty when the body has none. The error is
// Violations.
func DecodeAdmissionChange(body []byte, p AdmissionPolicy) (next AdmissionPolicy, id string, err error) {
	next = AdmissionPolicy{Name: p.Name, Level: p.Level, Tenant: p.Tenant, User: p.User, Priority: DefaultAdmissionPriority, Mode: Enforce}
	faults := read(body, func(r *reader) {
		readAdmissionFields(r, &next, admissionRego, func(name []byte) bool {
			switch string(name) {
			case "id":
				id = r.line(MaxOwner, false)
			case "version", "created_at", "updated_at", "created_by", "warnings":
				r.value()
			default:
				return false
			}
			return true
		})
	})
	return next, id, faults.orNil()
}

// Fields of an admission policy that must be there, by bit.
const (
	admissionName = 1 << iota
	admissionLevel
	admissionRego
)

var admissionFields = []string{"name", "policy_type", "rego_code"}

func readAdmissionPolicy(r *reader) AdmissionPolicy {
	p := AdmissionPolicy{Priority: DefaultAdmissionPriority, Mode: Enforce}
	readAdmissionFields(r, &p, admissionName|admissionLevel|admissionRego, func([]byte) bool { return false })
	return p
}

// readAdmissionFields reads the fields of a policy; other reads those that are no part of
// one, and says whether it knows them.
func readAdmissionFields(r *reader, p *AdmissionPolicy, need uint, other func(name []byte) bool) {
	var seen uint
	ok := r.object("an admission policy", func(name []byte) bool {
		switch string(name) {
		case "name":
			seen |= admissionName
			p.Name = r.line(MaxAdmissionName, true)
		case "description":
			p.Description, _ = r.prose(MaxAdmissionDescription)
		case "policy_type":
			seen |= admissionLevel
			p.Level = readLevel(r)
		case "tenant_id":
			p.Tenant = r.line(MaxOwner, false)
		case "user_id":
			p.User = r.line(MaxOwner, false)
		case "service_type":
			p.ServiceType = r.line(MaxOwner, false)
		case "label_selector":
			p.Labels = readAdmissionLabels(r)
		case "priority":
			p.Priority = readAdmissionPriority(r)
		case "enabled":
			p.Disabled = !r.flag()
		case "mode":
			p.Mode = readMode(r)
		case "rego_code":
			seen |= admissionRego
			p.Rego = readRego(r)
		case "test_cases":
			p.TestCases = readTestCases(r)
		default:
			return other(name)
		}
		return true
	})
	if ok {
		r.require(need, seen, admissionFields)
		checkOwners(r, *p)
	}
}

// checkOwners refuses an owner that the level cannot have: it would be without
// effect, and its author would believe in it.
func checkOwners(r *reader, p AdmissionPolicy) {
	if p.Tenant != "" && p.Level == Global {
		r.note("/tenant_id", CodeOwnerForbidden, "a Global policy applies to everybody; remove tenant_id, or make it a Tenant policy")
	}
	if p.User != "" && (p.Level == Global || p.Level == Tenant) {
		r.note("/user_id", CodeOwnerForbidden, "only a User policy applies to one user; remove user_id, or make it a User policy")
	}
}

func readLevel(r *reader) Level {
	b, ok := r.text("a string")
	if !ok {
		return ""
	}
	l, ok := ParseLevel(string(b))
	if !ok {
		r.note("", CodeUnknownLevel, fmt.Sprintf("%.64q is no level; use Global, Tenant or User", b))
	}
	return l
}

func readMode(r *reader) Mode {
	b, ok := r.text("a string")
	switch m := Mode(b); {
	case !ok:
	case m == Enforce, m == Shadow:
		return m
	default:
		r.note("", CodeUnknownMode, fmt.Sprintf("%.64q is no mode; use enforce or shadow", b))
	}
	return ""
}

func readAdmissionPriority(r *reader) int32 {
	if !r.expect('0', "a whole number") {
		return 0
	}
	raw, ok := r.value()
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil || n < 0 {
		r.note("", CodeInvalidPriority, fmt.Sprintf("%.32s is no priority; use a whole number from 0 to 2147483647", raw))
		return 0
	}
	return int32(n)
}

func readRego(r *reader) string {
	b, ok := r.text("a string")
	switch {
	case !ok:
	case len(strings.TrimSpace(string(b))) == 0:
		r.note("", CodeMissing, "must not be blank")
	case len(b) > MaxRego:
		r.note("", CodeTextTooLong, fmt.Sprintf("%d bytes; at most %d", len(b), MaxRego))
	default:
		return string(b)
	}
	return ""
}

// readAdmissionLabels reads an object of texts. Unlike a node's labels they may be any.
func readAdmissionLabels(r *reader) map[string]string {
	m := map[string]string{}
	ok := r.object("an object of labels", func(name []byte) bool {
		k := string(name)
		if v, ok := r.text("a string"); ok {
			m[k] = string(v)
			if len(k) > MaxLabelPrefix+1+MaxLabelName || len(v) > MaxLabelValue {
				r.note("", CodeTextTooLong, fmt.Sprintf("a label's key has at most %d bytes, its value %d", MaxLabelPrefix+1+MaxLabelName, MaxLabelValue))
			}
		}
		return true
	})
	if ok && len(m) > MaxLabels {
		r.note("", CodeTooManyLabels, tooMany("labels", len(m), MaxLabels))
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

func readTestCases(r *reader) (cases []jsontext.Value) {
	n := 0
	ok := r.array("an array of test cases", func(int) {
		if !r.expect('{', "a test case") {
			return
		}
		v, ok := r.value()
		if !ok {
			return
		}
		if n++; n > MaxTestCases {
			return
		}
		if len(v) > MaxTestCase {
			r.note("", CodeTextTooLong, fmt.Sprintf("%d bytes; a test case has at most %d", len(v), MaxTestCase))
			return
		}
		v = v.Clone()
		_ = v.Compact() // it was read, so it is JSON
		cases = append(cases, v)
	})
	if ok && n > MaxTestCases {
		r.note("", CodeTooManyTestCases, tooMany("test cases", n, MaxTestCases))
	}
	return cases
}

func readAdmissionPolicyID(r *reader) AdmissionPolicyID {
	b, ok := r.text("a policy id string")
	if !ok {
		return ""
	}
	if !validNodeID(b) {
		r.note("", CodeInvalidAdmissionPolicyID, admissionIDDetail(b))
		return ""
	}
	return AdmissionPolicyID(b)
}

// Evaluation is what a client asks to be admitted.
type Evaluation struct {
	Payload      jsontext.Value // an object
	User, Tenant string
}

// DecodeEvaluation reads {"request_payload","user_id"?,"tenant_id"?}. The error
// is Violations.
func DecodeEvaluation(body []byte) (e Evaluation, err error) {
	faults := read(body, func(r *reader) {
		ok := r.object("an evaluation", func(name []byte) bool {
			switch string(name) {
			case "request_payload":
				if r.expect('{', "an object") {
					v, _ := r.value()
					e.Payload = v.Clone()
				} else {
					e.Payload = jsontext.Value("null") // the fault is noted
				}
			case "user_id":
				e.User = r.line(MaxOwner, false)
			case "tenant_id":
				e.Tenant = r.line(MaxOwner, false)
			default:
				return false
			}
			return true
		})
		if ok && e.Payload == nil {
			r.note("/request_payload", CodeMissing, "request_payload is required")
		}
	})
	return e, faults.orNil()
}
