package admission

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"strings"
)

// Level is where a policy stands in the chain: Global policies run first, then
// those of the tenant, then those of the user. The zero value is no level.
type Level uint8

// The levels, in the order of the chain.
const (
	Global Level = iota + 1
	Tenant
	User
)

var levelNames = [...]string{"", "Global", "Tenant", "User"}

// Levels are all levels, in the order of the chain.
func Levels() []Level { return []Level{Global, Tenant, User} }

func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// ParseLevel reads a level in any case, as both API surfaces write it.
func ParseLevel(s string) (Level, error) {
	for _, l := range Levels() {
		if strings.EqualFold(s, levelNames[l]) {
			return l, nil
		}
	}
	return 0, fmt.Errorf("unknown level %q: it is Global, Tenant or User", s)
}

// MarshalText writes the level as the specification does.
func (l Level) MarshalText() ([]byte, error) {
	if l < Global || l > User {
		return nil, errors.New("no level")
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads what [ParseLevel] reads.
func (l *Level) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLevel(string(text))
	return err
}

var (
	_ encoding.TextMarshaler   = Level(0)
	_ encoding.TextUnmarshaler = (*Level)(nil)
)

// Mode says whether a policy's decisions count.
type Mode string

// The modes of a policy.
const (
	Enforce Mode = "enforce" // also the empty mode
	Shadow  Mode = "shadow"  // evaluated and explained, but changes and refuses nothing
)

// Policy is an admission policy as its author wrote it.
type Policy struct {
	ID   string
	Name string
	// Level and Priority order the chain; a lower priority goes first within a
	// level. Policies of equal priority, which the registry does not let happen
	// within one owner, go by id.
	Level    Level
	Priority int
	// TenantID and UserID name the owner of a Tenant or User policy. It applies
	// to the owner's requests alone; without an owner, to everybody's. A Global
	// policy has none.
	TenantID string
	UserID   string
	// ServiceType and LabelSelector choose requests: every part given must
	// match. The label "service_type" in a selector means the service type of
	// the request, whatever its labels say.
	ServiceType   string
	LabelSelector map[string]string
	Rego          string
	Mode          Mode
	Enabled       bool
	Tests         []Test
}

// Validate checks everything but the Rego and returns every fault at once,
// joined.
func (p Policy) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.Level < Global || p.Level > User {
		fault("level: is Global, Tenant or User")
	}
	if p.Level == Global && (p.TenantID != "" || p.UserID != "") {
		fault("level: a Global policy has no owner; leave tenant_id and user_id out or choose another level")
	}
	if p.Level == Tenant && p.UserID != "" {
		fault("user_id: a Tenant policy is owned by a tenant; leave user_id out or make it a User policy")
	}
	if p.Mode != "" && p.Mode != Enforce && p.Mode != Shadow {
		fault("mode: is %q or %q, not %q", Enforce, Shadow, p.Mode)
	}
	return errors.Join(faults...)
}

// compare orders policies as the chain runs them.
func (p *Policy) compare(q *Policy) int {
	return cmp.Or(cmp.Compare(p.Level, q.Level), cmp.Compare(p.Priority, q.Priority), cmp.Compare(p.ID, q.ID))
}
