package kubernetes

import (
	"github.com/edictdev/edict/policy"
)

var (
	adminWords         = words{"Allow", "Deny", "Pass", "ports", value.adminPort}
	baselineAdminWords = words{"Allow", "Deny", "", "ports", value.adminPort}
)

// admin reads the spec of an AdminNetworkPolicy.
func (o *object) admin(spec value) bool {
	fields, ok := spec.members("priority", "subject", "ingress", "egress")
	if !ok {
		return false
	}
	priority, ok := fields["priority"].integer(0, maxClusterPriority)
	o.tier, o.priority = policy.Admin, uint32(priority)
	return ok && o.sectionsOf(fields, adminWords)
}

// baselineAdmin reads the spec of a BaselineAdminNetworkPolicy, of which a cluster has
// one, named default.
func (o *object) baselineAdmin(spec value) bool {
	fields, ok := spec.members("subject", "ingress", "egress")
	if !ok {
		return false
	}
	o.tier, o.priority = policy.Baseline, baselineAdminPriority
	return o.sectionsOf(fields, baselineAdminWords)
}

// adminPort reads {portNumber}, {portRange} or {namedPort}.
func (v value) adminPort() (port, bool) {
	fields, ok := v.members("portNumber", "portRange", "namedPort")
	if !ok {
		return port{}, false
	}
	if named := fields["namedPort"]; named.present() {
		named.note("a port by name depends on the containers of each pod; write its number")
		return port{}, false
	}
	if presentOf(fields) != 1 {
		v.note("want either portNumber or portRange")
		return port{}, false
	}
	first, last := "port", "port"
	at := fields["portNumber"]
	if !at.present() {
		at, first, last = fields["portRange"], "start", "end"
	}
	which, ok := at.members("protocol", first, last)
	if !ok {
		return port{}, false
	}
	protocol, ok := which["protocol"].transport()
	if !ok {
		return port{}, false
	}
	from, ok := which[first].integer(1, 65535)
	if !ok {
		return port{}, false
	}
	to, ok := which[last].integer(from, 65535)
	return port{protocol, policy.Ports{From: uint16(from), To: uint16(to)}}, ok
}

// transport reads TCP, UDP or SCTP; what is absent is TCP.
func (v value) transport() (policy.Protocol, bool) {
	switch v.v {
	case nil, "TCP":
		return policy.TCP, true
	case "UDP":
		return policy.UDP, true
	case "SCTP":
		return policy.SCTP, true
	}
	v.note("want TCP, UDP or SCTP; the port is left out")
	return "", false
}
