package kubernetes

import (
	"net/netip"
	"slices"

	"github.com/edictdev/edict/policy"
)

// namespaced reads the spec of a NetworkPolicy. Of a direction that the object
// does not speak of, the section is nil.
func (o *object) namespaced(spec value) (ok bool) {
	fields, known := spec.members("podSelector", "policyTypes", "ingress", "egress")
	if _, ok := spec.v.(map[string]any); !ok {
		return false
	}
	if !known {
		spec.r.widens() // whatever it would change
	}
	own, ok := fields["podSelector"].selector(podKey)
	if !ok {
		return false
	}
	subject, ok := fields["podSelector"].checked(slices.Concat(podsOf(o.namespace), own))
	if !ok {
		return false
	}
	ingress, egress, ok := directions(fields)
	if !ok {
		return false
	}
	if ingress {
		o.ingress = &section{subject: subject, ingress: true, rules: o.allows(fields["ingress"], "from")}
	}
	if egress {
		o.egress = &section{subject: subject, rules: o.allows(fields["egress"], "to")}
	}
	return true
}

// directions are those that policyTypes names; without it ingress, and egress
// where the object has rules for it.
func directions(fields map[string]value) (ingress, egress, ok bool) {
	types, ok := fields["policyTypes"].elements()
	if !ok {
		return false, false, false
	}
	if len(types) == 0 {
		rules, ok := fields["egress"].elements()
		if !ok {
			fields["egress"].r.widens() // it is not isolated
		}
		return true, len(rules) > 0, true
	}
	for _, t := range types {
		switch t.v {
		case "Ingress":
			ingress = true
		case "Egress":
			egress = true
		default:
			t.note("want Ingress or Egress; the object is left out")
			return false, false, false
		}
	}
	return ingress, egress, true
}

// allows reads the rules of one direction. What cannot be expressed is left out
// and so allows nothing.
func (o *object) allows(list value, peers string) (all []rule) {
	rules, _ := list.elements()
	for _, v := range rules {
		fields, ok := v.members(peers, "ports")
		if !ok {
			continue
		}
		r := rule{action: policy.Allow, peers: o.netPeers(fields[peers]), ports: netPorts(fields["ports"])}
		all = append(all, r)
	}
	return all
}

// netPeers reads from or to; an empty list is everyone.
func (o *object) netPeers(list value) (all []peer) {
	peers, ok := list.elements()
	if !ok {
		return nil
	}
	if len(peers) == 0 {
		return anyone()
	}
	for _, v := range peers {
		fields, ok := v.members("podSelector", "namespaceSelector", "ipBlock")
		if !ok {
			continue
		}
		block, selects := fields["ipBlock"], fields["podSelector"].present() || fields["namespaceSelector"].present()
		switch {
		case block.present() == selects:
			v.note("want either ipBlock, or podSelector, namespaceSelector or both; the peer is left out")
		case selects:
			if nodes, ok := o.selected(v, fields); ok {
				all = append(all, peer{nodes: nodes})
			}
		default:
			all = append(all, block.block()...)
		}
	}
	return all
}

// selected are the pods of a peer by selector: without a namespaceSelector those
// of the object's namespace.
func (o *object) selected(v value, fields map[string]value) (policy.Expr, bool) {
	own, ok := fields["podSelector"].selector(podKey)
	if !ok {
		return nil, false
	}
	if !fields["namespaceSelector"].present() {
		return v.checked(slices.Concat(podsOf(o.namespace), own))
	}
	namespaces, ok := fields["namespaceSelector"].selector(NamespaceKey)
	if !ok {
		return nil, false
	}
	return v.checked(slices.Concat(pods(), namespaces, own))
}

// block reads an ipBlock: its CIDR without the exceptions. An exception that
// cannot be read leaves the block out.
func (v value) block() (all []peer) {
	fields, ok := v.members("cidr", "except")
	if !ok {
		return nil
	}
	whole, ok := fields["cidr"].cidr()
	except, fine := fields["except"].elements()
	if !ok || !fine {
		return nil
	}
	var out []netip.Prefix
	for _, e := range except {
		p, ok := e.cidr()
		if !ok {
			return nil
		}
		out = append(out, p)
	}
	for _, p := range without(nil, whole, out) {
		all = append(all, peer{cidr: p})
	}
	return all
}

// netPorts reads ports; an empty list is all traffic.
func netPorts(list value) (all []port) {
	ports, ok := list.elements()
	if !ok {
		return nil
	}
	if len(ports) == 0 {
		return everyTraffic
	}
	for _, v := range ports {
		if p, ok := v.netPort(); ok {
			all = append(all, p)
		}
	}
	return all
}

func (v value) netPort() (port, bool) {
	fields, ok := v.members("protocol", "port", "endPort")
	if !ok {
		return port{}, false
	}
	protocol, ok := fields["protocol"].transport()
	if !ok {
		return port{}, false
	}
	p := port{protocol: protocol, ports: everyPort}
	from, to := fields["port"], fields["endPort"]
	if name, named := from.v.(string); named {
		from.note("a port by name (%.63q) depends on the containers of each pod; the port is left out: write its number", name)
		return port{}, false
	}
	if !from.present() {
		if to.present() {
			to.note("endPort needs port; the port is left out")
		}
		return p, !to.present()
	}
	least, ok := from.integer(1, 65535)
	if !ok {
		return port{}, false
	}
	most := least
	if to.present() {
		if most, ok = to.integer(least, 65535); !ok {
			return port{}, false
		}
	}
	p.ports = policy.Ports{From: uint16(least), To: uint16(most)}
	return p, true
}
