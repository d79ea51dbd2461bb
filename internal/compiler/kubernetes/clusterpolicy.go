package kubernetes

import (
	"slices"

	"github.com/edictdev/edict/policy"
)

// cluster reads the spec of a ClusterNetworkPolicy.
func (o *object) cluster(spec value) bool {
	fields, ok := spec.members("tier", "priority", "subject", "ingress", "egress")
	if !ok {
		return false
	}
	switch fields["tier"].v {
	case "Admin":
		o.tier = policy.Admin
	case "Baseline":
		o.tier = policy.Baseline
	default:
		fields["tier"].note("want tier Admin or Baseline; the object is left out")
		return false
	}
	priority, ok := fields["priority"].integer(0, maxClusterPriority)
	if !ok {
		return false
	}
	o.priority = uint32(priority)
	return o.sectionsOf(fields, clusterWords)
}

// words are how a kind of policies for the cluster says what a rule does.
type words struct {
	allow, deny, pass string // pass "": it has none
	traffic           string // the field
	port              func(value) (port, bool)
}

func (w words) actions() string {
	if w.pass == "" {
		return w.allow + " or " + w.deny
	}
	return w.allow + ", " + w.deny + " or " + w.pass
}

var clusterWords = words{"Accept", "Deny", "Pass", "protocols", value.clusterPort}

// sectionsOf reads the subject, and what is said of it.
func (o *object) sectionsOf(fields map[string]value, say words) bool {
	subject, ok := fields["subject"].clusterPods()
	if !ok {
		return false
	}
	if rules := o.clusterRules(fields["ingress"], "from", say); len(rules) > 0 {
		o.ingress = &section{subject: subject, ingress: true, rules: rules}
	}
	if rules := o.clusterRules(fields["egress"], "to", say); len(rules) > 0 {
		o.egress = &section{subject: subject, rules: rules}
	}
	return true
}

// clusterPods reads {namespaces} or {pods}.
func (v value) clusterPods() (policy.Expr, bool) {
	fields, ok := v.members("namespaces", "pods")
	if !ok {
		return nil, false
	}
	if presentOf(fields) != 1 {
		v.note("want either namespaces or pods")
		return nil, false
	}
	if p := fields["pods"]; p.present() {
		return p.namespacedPod()
	}
	e, ok := fields["namespaces"].selector(NamespaceKey)
	if !ok {
		return nil, false
	}
	return v.checked(slices.Concat(pods(), e))
}

func (o *object) clusterRules(list value, peers string, say words) (all []rule) {
	rules, ok := list.elements()
	if !ok {
		list.r.widens()
	}
	for _, v := range rules {
		if r, ok := o.clusterRule(v, peers, say); ok {
			all = append(all, r)
		}
	}
	return all
}

// clusterRule reads a rule. The API asks to fail closed where something is not
// known: what allows then loses what cannot be expressed, and a Deny or Pass
// becomes a deny of all traffic.
func (o *object) clusterRule(v value, peers string, say words) (rule, bool) {
	fields, known := v.members("name", "action", peers, say.traffic)
	r := rule{peers: []peer{}}
	switch action := fields["action"].v; {
	case action == say.allow:
		r.action = policy.Allow
	case action == say.deny:
		r.action = policy.Deny
	case action == say.pass && say.pass != "":
		r.action = policy.Pass
	default:
		fields["action"].note("want action %s; it denies all traffic instead", say.actions())
		r.action, known = policy.Deny, false
	}
	whole := known
	list, ok := fields[peers].elements()
	if len(list) == 0 {
		fields[peers].note("want at least one peer in %s", peers)
		ok = false
	}
	whole = whole && ok
	for _, p := range list {
		more, ok := o.clusterPeer(p, peers)
		r.peers, whole = append(r.peers, more...), whole && ok
	}
	ports, ok := clusterPorts(fields[say.traffic], say.port)
	r.ports, whole = ports, whole && ok
	if whole {
		return r, true
	}
	if r.action == policy.Allow {
		v.note("of this %s, what cannot be expressed is left out", say.allow)
		return r, known
	}
	v.note("a rule to deny or pass that cannot be expressed whole denies all traffic instead: write it otherwise")
	r.action, r.peers, r.ports = policy.Deny, anyone(), everyTraffic
	return r, true
}

func (o *object) clusterPeer(v value, list string) (all []peer, ok bool) {
	fields, ok := v.loose()
	if !ok {
		return nil, false
	}
	if nodes := fields["nodes"]; list == "to" && o.machines && presentOf(fields) == 1 && nodes.present() {
		e, ok := nodes.selector(MachineKey)
		if !ok {
			return nil, false
		}
		e, ok = v.checked(slices.Concat(machines(), e))
		return []peer{{nodes: e, machines: true}}[:count(ok)], ok
	}
	for name, why := range map[string]string{
		"nodes":       "the machines of the cluster are no nodes of the plane, without its controller; write their addresses as networks",
		"domainNames": "the plane knows addresses, not names",
	} {
		if f := fields[name]; list == "to" && presentOf(fields) == 1 && f.present() {
			f.note("%s cannot be expressed: %s", name, why)
			return nil, false
		}
	}
	networks := fields["networks"]
	if list != "to" || !networks.present() || presentOf(fields) > 1 {
		nodes, ok := v.clusterPods()
		return []peer{{nodes: nodes}}[:count(ok)], ok
	}
	cidrs, ok := networks.elements()
	if ok && len(cidrs) == 0 {
		networks.note("want at least one network")
		return nil, false
	}
	for _, c := range cidrs {
		p, fine := c.cidr()
		if ok = ok && fine; fine {
			all = append(all, peer{cidr: p})
		}
	}
	return all, ok
}

func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// clusterPorts reads the traffic of a rule; an empty list is all of it.
func clusterPorts(list value, read func(value) (port, bool)) (all []port, ok bool) {
	protocols, ok := list.elements()
	if len(protocols) == 0 && ok {
		return everyTraffic, true
	}
	for _, v := range protocols {
		p, fine := read(v)
		if ok = ok && fine; fine {
			all = append(all, p)
		}
	}
	return all, ok
}

func (v value) clusterPort() (port, bool) {
	fields, ok := v.members("tcp", "udp", "sctp", "destinationNamedPort")
	if !ok {
		return port{}, false
	}
	if named := fields["destinationNamedPort"]; named.present() {
		named.note("a port by name depends on the containers of each pod; write its number")
		return port{}, false
	}
	if presentOf(fields) != 1 {
		v.note("want one of tcp, udp, sctp")
		return port{}, false
	}
	for _, p := range []policy.Protocol{policy.TCP, policy.UDP, policy.SCTP} {
		if f := fields[string(p)]; f.present() {
			ports, ok := f.destination()
			return port{p, ports}, ok
		}
	}
	return port{}, false // one of them is there
}

// destination reads {destinationPort: {number} or {range: {start, end}}}.
func (v value) destination() (policy.Ports, bool) {
	fields, ok := v.members("destinationPort")
	if !ok || !fields["destinationPort"].present() {
		return everyPort, ok
	}
	at := fields["destinationPort"]
	which, ok := at.members("number", "range")
	if !ok {
		return policy.Ports{}, false
	}
	if presentOf(which) != 1 {
		at.note("want either number or range")
		return policy.Ports{}, false
	}
	if n := which["number"]; n.present() {
		p, ok := n.integer(1, 65535)
		return policy.Ports{From: uint16(p), To: uint16(p)}, ok
	}
	ends, ok := which["range"].members("start", "end")
	if !ok {
		return policy.Ports{}, false
	}
	from, ok := ends["start"].integer(1, 65535)
	if !ok {
		return policy.Ports{}, false
	}
	to, ok := ends["end"].integer(from, 65535)
	return policy.Ports{From: uint16(from), To: uint16(to)}, ok
}
