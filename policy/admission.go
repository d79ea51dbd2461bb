package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Level is where in the chain an admission policy stands: Global policies run
// first, User policies last (003-policy-engine, execution order).
type Level string

// The levels, in the order in which they run.
const (
	Global Level = "Global"
	Tenant Level = "Tenant"
	User   Level = "User"
)

// Levels are all levels, in the order in which they run.
var Levels = []Level{Global, Tenant, User}

// ParseLevel reads a level in any case.
func ParseLevel(s string) (Level, bool) {
	for _, l := range Levels {
		if strings.EqualFold(string(l), s) {
			return l, true
		}
	}
	return "", false
}

// Mode is what comes of what a policy says. A policy is in force, or nodes only count
// what it would deny; an admission policy's decision is in force, or only recorded.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // of admission policies
	Audit   Mode = "audit"  // of policies
)

// Limits of an admission policy that the log knows. An API may ask for less,
// never for more.
const (
	MaxAdmissionName        = 255  // characters
	MaxAdmissionDescription = 2048 // characters
	MaxOwner                = 256  // bytes of a tenant or user id, and of a service type
	MaxRego                 = 256 << 10
	MaxTestCases            = 256
	MaxTestCase             = 64 << 10 // bytes of one
)

// DefaultAdmissionPriority is the priority of an admission policy that names none.
const DefaultAdmissionPriority = 500

// AdmissionPolicy is a Rego policy of the admission chain, whole, as its author
// wrote it. The log does not compile it: what Rego means may change with the
// library that reads it, and a verdict must not.
type AdmissionPolicy struct {
	Name, Description string
	Level             Level
	// Owner: a Tenant policy with a tenant, and a User policy with a user,
	// applies only to it; one without, to everybody.
	Tenant, User string
	ServiceType  string            // "": any
	Labels       map[string]string // the label selector: all must be equal
	Priority     int32             // a lower number runs first
	Disabled     bool
	Mode         Mode
	Rego         string
	TestCases    []jsontext.Value // compact JSON objects; what they say is the engine's business
}

// Scope names whom the policy's name and priority must be unique for: its
// level, at Tenant its tenant, at User its user.
func (p AdmissionPolicy) Scope() (Level, string) {
	switch p.Level {
	case Tenant:
		return p.Level, p.Tenant
	case User:
		return p.Level, p.User
	}
	return p.Level, ""
}

// title is the policy's level, its owner where it has one, and its name.
func (p AdmissionPolicy) title() string {
	level, owner := p.Scope()
	if owner != "" {
		owner = fmt.Sprintf(" %q", owner)
	}
	return fmt.Sprintf("%s%s: %s", level, owner, p.Name)
}

// Equal reports whether two authors wrote the same.
func (p AdmissionPolicy) Equal(o AdmissionPolicy) bool {
	return string(AppendAdmissionPolicy(nil, p)) == string(AppendAdmissionPolicy(nil, o))
}

// AdmissionPolicyID names an admission policy: a DNS label, as a node id is.
// An id is free again once its policy is deleted.
type AdmissionPolicyID string

func admissionIDDetail(s []byte) string {
	return fmt.Sprintf("%.80q is not a policy id; use 1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'", s)
}

// AppendAdmissionPolicy appends the policy's JSON: compact, fields in the order
// of docs/events.md, what is empty left out.
func AppendAdmissionPolicy(b []byte, p AdmissionPolicy) []byte {
	b = appendText(append(b, `{"name":`...), p.Name)
	text := func(name, value string) {
		if value != "" {
			b = appendText(append(append(append(b, `,"`...), name...), `":`...), value)
		}
	}
	text("description", p.Description)
	text("policy_type", string(p.Level))
	text("tenant_id", p.Tenant)
	text("user_id", p.User)
	text("service_type", p.ServiceType)
	if len(p.Labels) > 0 {
		b = append(b, `,"label_selector":{`...)
		for i, k := range slices.Sorted(maps.Keys(p.Labels)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(append(appendText(b, k), ':'), p.Labels[k])
		}
		b = append(b, '}')
	}
	b = strconv.AppendInt(append(b, `,"priority":`...), int64(p.Priority), 10)
	b = strconv.AppendBool(append(b, `,"enabled":`...), !p.Disabled)
	text("mode", string(p.Mode))
	text("rego_code", p.Rego)
	if len(p.TestCases) > 0 {
		b = append(b, `,"test_cases":[`...)
		for i, c := range p.TestCases {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, c...)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendExpected(b []byte, seq *uint64) []byte {
	if seq != nil {
		b = strconv.AppendUint(append(b, `,"expected_version":`...), *seq, 10)
	}
	return b
}
