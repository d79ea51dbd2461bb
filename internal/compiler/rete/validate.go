package rete

import (
	"crypto/ed25519"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Signer is one whom nodes trust for plane "mgmt".
type Signer struct {
	SPIFFE string
	Key    ed25519.PublicKey
}

// Model is a view that was judged, with what the rules learnt on the way.
type Model struct {
	*View
	Signers []Signer // in the order they are listed
}

// Validate holds a merged view against rules 2 to 12, 8a, 14 and 15. It reads the
// certificates and the enrollment log from the repository. The faults are all
// there are, in the order of the rules; a model with violations is not to be
// compiled.
func Validate(v *View, repo fs.FS) (*Model, []Fault) { return ValidateWith(v, repo, nil) }

// ValidateWith is Validate of the repository as it will be once its enrollment log
// has more events.
func ValidateWith(v *View, repo fs.FS, more []Enrollment) (*Model, []Fault) {
	c := &checker{view: v, repo: repo, rete: string(v.Rete.Value.Name)}
	var log []Fault
	var reading sync.WaitGroup // the log is as long as the rest, and most rules do without
	reading.Go(func() { c.enrolled, log = enrollments(repo, more) })
	for _, rule := range []func(){
		c.ruleReferences, c.ruleRegistry, c.rulePlacement, c.ruleManagement, c.ruleReserved, c.ruleReservedMembers, c.ruleOperator,
		c.ruleVertices, c.ruleBinding, c.ruleAccess, c.ruleCoherence, c.rulePorts, c.ruleCustody,
	} {
		rule()
	}
	reading.Wait()
	c.faults = append(c.faults, log...)
	c.log = len(log) == 0 || log[0].Line > 0
	c.ruleEnrollment()
	c.ruleSigners()
	return &Model{v, c.signers}, sortFaults(c.faults)
}

// enrollments reads the enrollment log, and adds more to it.
func enrollments(repo fs.FS, more []Enrollment) (*Enrollments, []Fault) {
	enrolled, faults := ReadEnrollments(repo)
	for _, event := range more {
		if err := enrolled.apply(event); err != nil {
			faults = append(faults, Fault{Rule: "4", Label: labelOf("4"), Path: EnrollmentLog, Name: event.SPIFFE, Message: err.Error()})
		}
	}
	return enrolled, faults
}

// checker judges one view.
type checker struct {
	report
	view     *View
	repo     fs.FS
	rete     string
	enrolled *Enrollments
	log      bool // the enrollment log is there
	hints    int  // names that were looked for among others
	signers  []Signer
}

// mostHints is for how many names that are not defined another one is looked for that
// could be meant. Each is compared with all there are.
const mostHints = 100

// undefined notes a reference that leads nowhere.
func undefined[T any](c *checker, rule string, at where, from, what, name string, in *Collection[T]) {
	if in.Get(name) != nil {
		return
	}
	hint := "declare it, or correct the name"
	if c.hints++; c.hints <= mostHints {
		names := make([]string, len(in.All))
		for i, e := range in.All {
			names[i] = e.Name
		}
		if near := nearest(name, names); near != "" {
			hint = "did you mean " + near + "?"
		}
	}
	c.add(rule, at(), from, "%s names the %s %q, which is not defined; %s", from, what, name, hint)
}

// ruleReferences is rule 2, for what users name. What services and roles name
// is rule 11's, and places are 5's and 10's, so that one mistake is reported once.
func (c *checker) ruleReferences() {
	for _, u := range c.view.Users.All {
		roles, devices := seen[string]{}, seen[holds]{}
		for i, role := range u.Value.Roles {
			undefined(c, "2", u.where("roles", i), u.title(), "role", role, &c.view.Roles)
			c.once("2", u.where("roles", i), u.title(), "role", role, roles)
		}
		for i, device := range u.Value.Nodes {
			undefined(c, "2", u.where("nodes", i, "at"), u.title(), "node", device.At, &c.view.Nodes)
			if devices.again(c.holds(device)) {
				c.add("2", u.at("nodes", i), u.title(), "%s lists the device at node %q twice; remove one", u.title(), device.At)
			}
		}
	}
}

// holds is what two devices of a user have in common that are one: the vertex of a node,
// or what it is called, where the node is not defined.
type holds struct {
	node, via string
	vertex    int
}

func (c *checker) holds(d Device) holds {
	if n := c.view.Nodes.Get(d.At); n != nil {
		return holds{node: d.At, vertex: n.Value.bind(d.Via)}
	}
	return holds{node: d.At, via: d.Via}
}

// seen is what a list had so far. Lists of others may be long.
type seen[T comparable] map[T]bool

// again says whether it was seen already, and notes it.
func (s seen[T]) again(what T) bool {
	before := s[what]
	s[what] = true
	return before
}

// once refuses a name that a list has already.
func (c *checker) once(rule string, at where, title, what, name string, names seen[string]) {
	if names.again(name) {
		c.add(rule, at(), title, "%s lists the %s %q twice; remove one", title, what, name)
	}
}

// ruleRegistry is rule 3: users, services and nodes share one name space, and all
// names, of groups and roles too, are labels.
func (c *checker) ruleRegistry() {
	seen := map[string]place{}
	title := map[string]string{}
	check := func(name, what string, at place) {
		if bad := BadName(name); bad != "" {
			c.add("3", at, what, "the name of %s %s", what, bad)
		}
		if other, taken := title[name]; taken {
			c.add("3", at, what, "the name %q is used by both %s, at %s, and %s; users, services and nodes need names of their own", name, other, placeText(seen[name]), what)
			return
		}
		seen[name], title[name] = at, what
	}
	for _, e := range c.view.Nodes.All {
		check(e.Name, e.title(), e.here())
	}
	for _, e := range c.view.Services.All {
		check(e.Name, e.title(), e.here())
	}
	for _, e := range c.view.Users.All {
		check(e.Name, e.title(), e.here())
	}
	label := func(name, what string, at place) {
		if !isLabel(name) {
			c.add("3", at, what, "the name of %s %s", what, notLabel)
		}
	}
	for _, e := range c.view.Groups.All {
		label(e.Name, e.title(), e.here())
	}
	for _, e := range c.view.Roles.All {
		label(e.Name, e.title(), e.here())
	}
}

// ruleEnrollment is rule 4.
func (c *checker) ruleEnrollment() {
	if !c.log {
		return // said once is enough
	}
	check := func(id, title string, at place) {
		if !c.enrolled.Live(id) {
			c.add("4", at, title, "%s has no sign-event in %s that is not revoked, for %s; issue a certificate with retectl ca sign, or remove the entry",
				title, EnrollmentLog, id)
		}
	}
	for _, e := range c.view.Nodes.All {
		check(c.view.nodeID(e.Name), e.title(), e.here())
	}
	for _, e := range c.view.Services.All {
		check(c.view.serviceID(e), e.title(), e.here())
	}
	for _, e := range c.view.Users.All {
		check(c.view.userID(e.Name), e.title(), e.here())
	}
	c.strayCertificates()
}

// strayCertificates warns of certificates that still count, of those the repository
// does not have any more.
func (c *checker) strayCertificates() {
	v, rete := c.view, string(c.view.Rete.Value.Name)
	known := map[string]bool{TrustDomain(rete): true}
	for _, n := range v.Nodes.All {
		known[v.nodeID(n.Name)] = true
		for _, vertex := range n.Value.vertexNames() {
			known[SPIFFE(rete, PrincipalVertex, n.Name, vertex)] = true
		}
	}
	for _, s := range v.Services.All {
		known[v.serviceID(s)] = true
	}
	for _, u := range v.Users.All {
		known[v.userID(u.Name)] = true
	}
	for _, k := range v.Rete.Value.Signers.Mgmt.Keys {
		known[SPIFFE(rete, PrincipalMgmt, k.Name)] = true
	}
	control := SPIFFE(rete, PrincipalCtrl, "") // the repository does not list them
	for _, id := range c.enrolled.Principals() {
		if !known[id] && !strings.HasPrefix(id, control) {
			c.warn("4", place{file: EnrollmentLog}, id, "%s has a certificate that was not revoked, but the repository does not have it; revoke it with retectl ca revoke, or add the entry", id)
		}
	}
}

func (v *View) nodeID(name string) string {
	return SPIFFE(string(v.Rete.Value.Name), PrincipalNode, name)
}

func (v *View) userID(name string) string {
	return SPIFFE(string(v.Rete.Value.Name), PrincipalUser, name)
}

func (v *View) serviceID(e *Entry[Service]) string {
	if e.Value.Scope == ScopeNode {
		return SPIFFE(string(v.Rete.Value.Name), PrincipalService, e.Value.At, e.Name)
	}
	return SPIFFE(string(v.Rete.Value.Name), PrincipalService, e.Name)
}

// rulePlacement is rule 5.
func (c *checker) rulePlacement() {
	for _, s := range c.view.Services.All {
		undefined(c, "5", s.where("at"), s.title(), "node", s.Value.At, &c.view.Nodes)
	}
}

// ruleAccess is rule 11.
func (c *checker) ruleAccess() {
	for _, s := range c.view.Services.All {
		groups, roles := seen[string]{}, seen[string]{}
		for i, group := range s.Value.Groups {
			undefined(c, "11", s.where("groups", i), s.title(), "group", group, &c.view.Groups)
			c.once("11", s.where("groups", i), s.title(), "group", group, groups)
		}
		for i, role := range s.Value.Roles {
			undefined(c, "11", s.where("roles", i), s.title(), "role", role, &c.view.Roles)
			c.once("11", s.where("roles", i), s.title(), "role", role, roles)
		}
	}
	for _, r := range c.view.Roles.All {
		groups := seen[string]{}
		for i, group := range r.Value.Allow {
			undefined(c, "11", r.where("allow", i), r.title(), "group", group, &c.view.Groups)
			c.once("11", r.where("allow", i), r.title(), "group", group, groups)
		}
	}
}

// ruleCoherence is rule 12.
func (c *checker) ruleCoherence() {
	for _, s := range c.view.Services.All {
		calls, may := s.Value.Socks5.IsValid(), len(s.Value.Roles) > 0
		switch {
		case calls && !may:
			c.add("12", s.at("socks5_proxy"), s.title(), "%s has a socks5_proxy, so it calls others, but no roles; give it the roles it needs, or remove socks5_proxy", s.title())
		case may && !calls:
			c.warn("12", s.at("roles"), s.title(), "%s has roles but no socks5_proxy, so it cannot call anybody; add socks5_proxy, or remove roles", s.title())
		}
	}
}

// rulePorts is rule 14: no two listeners that flor opens on a node share an
// address, and none is a service's own.
func (c *checker) rulePorts() {
	claimed := listeners{}
	claim := func(node string, a Address, title string, at where) {
		if !a.IsValid() {
			return
		}
		if other := claimed.meets(node, a); other != nil {
			c.add("14", at(), title, "the listener %s on node %q is claimed by both %s and %s%s; give one another port", a, node, other.title, title, other.also(a))
			return
		}
		claimed.add(node, a, title)
	}
	for _, s := range c.view.Services.All {
		claim(s.Value.At, s.Value.Socks5, s.title(), s.where("socks5_proxy"))
	}
	for _, u := range c.view.Users.All {
		for i, d := range u.Value.Nodes {
			claim(d.At, d.Socks5, u.title(), u.where("nodes", i, "socks5_proxy"))
		}
	}
	for _, s := range c.view.Services.All {
		if other := claimed.meets(s.Value.At, s.Value.Addr); other != nil {
			c.add("14", s.at("addr"), s.title(), "%s listens at %s on node %q, where a listener of %s is opened%s; give one another port",
				s.title(), s.Value.Addr, s.Value.At, other.title, other.also(s.Value.Addr))
		}
	}
	c.vertexPorts()
}

// vertexPorts is rule 14 for vertices, which listen at their port on every interface,
// whatever address others dial them by. [::] takes all of IPv4, too.
func (c *checker) vertexPorts() {
	for _, n := range c.view.Nodes.All {
		open := map[uint16]int{}
		for i, v := range n.Value.Vertices {
			if !v.Address.IsValid() {
				continue
			}
			first, taken := open[v.Address.Port()]
			switch {
			case !taken:
				open[v.Address.Port()] = i
			case n.Value.Vertices[first].Address != v.Address: // one address twice is rule 9's
				c.add("14", n.at("vertices", i, "address"), n.title(), "two vertices of %s have port %d, at %s and %s, and each listens there on every interface; give one another port",
					n.title(), v.Address.Port(), n.Value.Vertices[first].Address, v.Address)
			}
		}
	}
}

// listeners are those of all nodes, by node and port.
type (
	listeners map[socket][]listener
	socket    struct {
		node string
		port uint16
	}
	listener struct {
		address Address
		title   string
	}
)

func (l listeners) add(node string, a Address, title string) {
	k := socket{node, a.Port()}
	l[k] = append(l[k], listener{a, title})
}

// meets finds a listener of the node that cannot be open beside that address; nil:
// there is none.
func (l listeners) meets(node string, a Address) *listener {
	of := l[socket{node, a.Port()}]
	i := slices.IndexFunc(of, func(o listener) bool { return overlaps(o.address.Addr(), a.Addr()) })
	if i < 0 {
		return nil
	}
	return &of[i]
}

// also names the address of a listener where it is written otherwise.
func (l *listener) also(a Address) string {
	if l.address == a {
		return ""
	}
	return ", at " + l.address.String()
}

// overlaps says whether two listeners of one port get in each other's way: 0.0.0.0
// takes every IPv4 address, and [::] takes all.
func overlaps(a, b netip.Addr) bool {
	takes := func(a, b netip.Addr) bool { return a.IsUnspecified() && (a.Is6() || b.Is4()) }
	return a == b || takes(a, b) || takes(b, a)
}

func quoted(all []string) string { return "[" + strings.Join(all, ", ") + "]" }
