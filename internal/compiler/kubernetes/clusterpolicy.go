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
	subject, ok := fields["subject"].clusterPods()
	if !ok {
		return false
	}
	if rules := clusterRules(fields["ingress"], "from"); len(rules) > 0 {
		o.ingress = &section{subject: subject, ingress: true, rules: rules}
	}
	if rules := clusterRules(fields["egress"], "to"); len(rules) > 0 {
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

func clusterRules(list value, peers string) (all []rule) {
	rules, ok := list.elements()
	if !ok {
		list.r.widens()
	}
	for _, v := range rules {
		if r, ok := v.clusterRule(peers); ok {
			all = append(all, r)
		}
	}
	return all
}

// clusterRule reads a rule. The API asks to fail closed where something is not
// known: an Accept then loses what cannot be expressed, and a Deny or Pass
// becomes a deny of all traffic.
func (v value) clusterRule(peers string) (rule, bool) {
	fields, known := v.members("name", "action", peers, "protocols")
	r := rule{peers: []peer{}}
	switch fields["action"].v {
	case "Accept":
		r.action = policy.Allow
	case "Deny":
		r.action = policy.Deny
	case "Pass":
		r.action = policy.Pass
	default:
		fields["action"].note("want action Accept, Deny or Pass; it denies all traffic instead")
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
		more, ok := p.clusterPeer(peers)
		r.peers, whole = append(r.peers, more...), whole && ok
	}
	ports, ok := clusterPorts(fields["protocols"])
	r.ports, whole = ports, whole && ok
	if whole {
		return r, true
	}
	if r.action == policy.Allow {
		v.note("of this Accept, what cannot be expressed is left out")
		return r, known
	}
	v.note("a rule to deny or pass that cannot be expressed whole denies all traffic instead: write it otherwise")
	r.action, r.peers, r.ports = policy.Deny, anyone(), everyTraffic
	return r, true
}

func (v value) clusterPeer(list string) (all []peer, ok bool) {
	fields, ok := v.loose()
	if !ok {
		return nil, false
	}
	for name, why := range map[string]string{
		"nodes":       "the machines of the cluster are no nodes of the plane; write their addresses as networks",
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

// clusterPorts reads protocols; an empty list is all traffic.
func clusterPorts(list value) (all []port, ok bool) {
	protocols, ok := list.elements()
	if len(protocols) == 0 && ok {
		return everyTraffic, true
	}
	for _, v := range protocols {
		p, fine := v.clusterPort()
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
