package access

import (
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/policy"
)

// Need is what an operation asks of whoever asks for it.
type Need uint8

// The needs. The zero value is nobody's: an operation that declares none is
// denied to all.
const (
	Undeclared      Need = iota
	Anyone               // nothing, not even credentials
	Known                // to be a principal
	SeePolicies          // policy#read of any policy in the project; the answer holds those alone
	ReadPolicy           // policy#read
	EditPolicy           // policy#edit
	ManagePolicy         // policy#manage and project#operator
	SeeProject           // project#operator or project#read
	OperateProject       // project#operator
	ReadNode             // node#agent, or project#operator of the node's project
	ActAsNode            // node#agent
	Evaluate             // plane#read: to ask what admission would say
	ReadPlane            // plane#read
	AdminPlane           // plane#admin
	SeeAdmission         // plane#read, or what AuthorAdmission needs, of what is shown
	AuthorAdmission      // plane#admin, or tenant#admin of its tenant, or to be its user; see MayAuthor
)

// String says the need as the OpenAPI document does.
func (n Need) String() string {
	switch n {
	case Anyone:
		return "nothing"
	case Known:
		return "a principal"
	case SeePolicies:
		return "policy#read of what is listed"
	case ReadPolicy:
		return "policy#read"
	case EditPolicy:
		return "policy#edit"
	case ManagePolicy:
		return "policy#manage and project#operator"
	case SeeProject:
		return "project#operator or project#read"
	case OperateProject:
		return "project#operator"
	case ReadNode:
		return "node#agent or project#operator"
	case ActAsNode:
		return "node#agent"
	case ReadPlane, Evaluate:
		return "plane#read"
	case AdminPlane:
		return "plane#admin"
	case SeeAdmission:
		return "plane#read, or to be an author of what is shown"
	case AuthorAdmission:
		return "plane#admin, tenant#admin of its tenant, or to be its user"
	}
	return "undeclared"
}

// Object is what a request is about. What it does not name is zero; Project of a
// node is the one that owns it, zero when nobody does.
type Object struct {
	Project, Policy uuid.UUID
	Node            policy.NodeID
}

// Decision is the answer to a request.
type Decision uint8

// The decisions.
const (
	Forbid Decision = iota // 403: it may be seen, and not that be done to it
	Hide                   // 404: for this principal there is no such thing
	Allow
)

// bits are relations to one object. Those of policies are sets that include
// what a lower one allows.
type bits uint8

const (
	read bits = 1 << iota
	edit
	manage
	operator
)

var bitsOf = map[string]bits{
	policy.RelationRead:     read,
	policy.RelationEdit:     read | edit,
	policy.RelationManage:   read | edit | manage,
	policy.RelationOperator: operator,
}

// Principal is a principal and its relations, for deciding. It never changes.
type Principal struct {
	ID   policy.PrincipalID
	Kind policy.PrincipalKind

	relations     []policy.Relation
	admin, reader bool
	tenants       map[string]bool // whose admission policies it writes
	projects      map[uuid.UUID]bits
	policies      map[uuid.UUID]bits
	nodes         map[policy.NodeID][]uuid.UUID // and of which project each must be
}

// NewPrincipal is a principal that has these relations.
func NewPrincipal(id policy.PrincipalID, kind policy.PrincipalKind, relations ...policy.Relation) *Principal {
	p := &Principal{ID: id, Kind: kind, relations: relations}
	for _, r := range relations {
		switch r.Kind {
		case policy.ObjectPlane:
			p.admin = p.admin || r.Name == policy.RelationAdmin
			p.reader = p.reader || r.Name == policy.RelationRead
		case policy.ObjectProject:
			p.projects = join(p.projects, r.ID, bitsOf[r.Name])
		case policy.ObjectPolicy:
			p.policies = join(p.policies, r.ID, bitsOf[r.Name])
		case policy.ObjectTenant:
			if p.tenants == nil {
				p.tenants = map[string]bool{}
			}
			p.tenants[r.Tenant] = true
		case policy.ObjectNode:
			if !r.Whole() {
				continue // of nobody's node, see the fold
			}
			if p.nodes == nil {
				p.nodes = map[policy.NodeID][]uuid.UUID{}
			}
			p.nodes[r.Node] = append(p.nodes[r.Node], r.ID)
		}
	}
	return p
}

// Relations are what the principal was made with. The slice is not the caller's
// to change.
func (p *Principal) Relations() []policy.Relation { return p.relations }

func join(m map[uuid.UUID]bits, id uuid.UUID, b bits) map[uuid.UUID]bits {
	if m == nil {
		m = map[uuid.UUID]bits{}
	}
	m[id] |= b
	return m
}

// Decide answers a request of the principal. It is a pure function and
// allocates nothing.
func (p *Principal) Decide(n Need, o Object) Decision {
	if n == Undeclared {
		return Forbid
	}
	if p.admin || fault.Always(fault.OpenDoor) || n == Anyone || n == Known {
		return Allow
	}
	switch n {
	case SeePolicies, ReadPolicy, EditPolicy, ManagePolicy, SeeProject, OperateProject:
		return p.decideProject(n, o)
	case ReadNode, ActAsNode:
		return p.decideNode(n, o)
	case ReadPlane, Evaluate:
		if p.reader {
			return Allow
		}
	case SeeAdmission, AuthorAdmission:
		// Everybody has a level of his own: which policies, MayAuthor says.
		return either(p.Kind != policy.Agent || p.reader && n == SeeAdmission, true)
	}
	return Forbid
}

func (p *Principal) decideProject(n Need, o Object) Decision {
	project := p.projects[o.Project]
	has := project | p.policies[o.Policy]
	switch n {
	case SeePolicies:
		// Whoever may read single policies gets a list of them.
		return either(project != 0 || len(p.policies) > 0, false)
	case ReadPolicy:
		return either(has&read != 0, false)
	case EditPolicy:
		return either(has&edit != 0, has&read != 0)
	case ManagePolicy:
		seen := has&read != 0
		if o.Policy == uuid.Nil {
			seen = project != 0
		}
		return either(has&manage != 0 && project&operator != 0, seen)
	case SeeProject:
		return either(project&(operator|read) != 0, false)
	}
	return either(project&operator != 0, project != 0) // OperateProject
}

func (p *Principal) decideNode(n Need, o Object) Decision {
	projects, named := p.nodes[o.Node]
	operates := o.Project != uuid.Nil && p.projects[o.Project]&operator != 0
	switch {
	case named && o.Project == uuid.Nil:
		return Hide // there is no such node yet
	case slices.Contains(projects, o.Project), n == ReadNode && operates:
		return Allow
	case operates, p.Kind == policy.Agent:
		// An agent gets 403, as the node contract wants it, whether there is such a
		// node or not.
		return Forbid
	}
	return Hide
}

// either allows; else it forbids what is seen and hides what is not.
func either(allowed, seen bool) Decision {
	switch {
	case allowed:
		return Allow
	case seen:
		return Forbid
	}
	return Hide
}

// IsAgentOf reports whether the principal is the agent of a node of a project, and not
// merely somebody who may do what the agent may.
func (p *Principal) IsAgentOf(project uuid.UUID, id policy.NodeID) bool {
	return slices.Contains(p.nodes[id], project)
}

// MayRead reports whether the principal may read a policy of a project.
func (p *Principal) MayRead(project, id uuid.UUID) bool {
	return p.Decide(ReadPolicy, Object{Project: project, Policy: id}) == Allow
}

// MayAuthor reports whether the principal may write admission policies of a level
// and owner: Global ones, and those for everybody, the plane's administrators; those
// of a tenant its administrators; those of a user the user, whose relation to himself
// nobody needs to write. Only people and services have policies of their own.
func (p *Principal) MayAuthor(level policy.Level, tenant, user string) bool {
	switch {
	case p.admin:
		return true
	case p.Kind == policy.Agent:
		return false
	case level == policy.Tenant:
		return tenant != "" && p.tenants[tenant]
	case level == policy.User:
		return user != "" && user == string(p.ID)
	}
	return false
}

// MaySee reports whether the principal may read admission policies of a level and
// owner.
func (p *Principal) MaySee(level policy.Level, tenant, user string) bool {
	return p.reader || p.MayAuthor(level, tenant, user)
}

// AuthorsOf says who may write admission policies of a level and owner.
func AuthorsOf(level policy.Level, tenant, user string) string {
	switch {
	case level == policy.Tenant && tenant != "":
		return "plane#admin or tenant:" + tenant + "#admin"
	case level == policy.User && user != "":
		return "plane#admin or to be " + user
	}
	return "plane#admin"
}
