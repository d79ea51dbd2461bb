package rete

import (
	"encoding/binary"
	"slices"
)

// target is a service as those who may reach it see it.
type target struct {
	*Entry[Service]
	id     string
	node   string
	vertex int
	addr   string // where it is dialled; empty: its vertex has no address
}

// access is who may reach what: a principal may reach a service iff its roles
// grant one of the service's groups (reference 4.2).
type access struct {
	view    *View
	targets []target         // in the order of artifacts: the reserved ones, then by name
	inGroup map[string][]int // group → targets, ascending
	granted map[string][]string
	reach   map[string][]int    // listKey of roles → targets, ascending
	allowed map[string][]string // listKey of groups → principals, ascending
}

func newAccess(v *View) *access {
	a := &access{view: v, inGroup: map[string][]int{}, granted: map[string][]string{}, reach: map[string][]int{}, allowed: map[string][]string{}}
	for _, s := range v.Services.All {
		n := v.Nodes.Get(s.Value.At).Value
		t := target{Entry: s, id: v.serviceID(s), node: s.Value.At, vertex: n.bind(s.Value.Via)}
		if addr := n.Vertices[t.vertex].Address; addr.IsValid() {
			t.addr = addr.String()
		}
		a.targets = append(a.targets, t)
	}
	slices.SortStableFunc(a.targets, func(x, y target) int { return reservedOrder(x.Name) - reservedOrder(y.Name) })
	for i, t := range a.targets {
		for _, g := range t.Value.Groups {
			if in := a.inGroup[g]; len(in) == 0 || in[len(in)-1] != i {
				a.inGroup[g] = append(in, i)
			}
		}
	}
	for _, n := range v.Nodes.All {
		a.grant(v.nodeID(n.Name), nodeRoles)
	}
	for _, t := range a.targets {
		a.grant(t.id, t.Value.Roles)
	}
	for _, u := range v.Users.All {
		a.grant(v.userID(u.Name), u.Value.Roles)
	}
	return a
}

// nodeRoles is what every node is given, and nobody writes.
var nodeRoles = []string{RoleNode}

// reservedOrder puts config-server first, then config-publisher.
func reservedOrder(service string) int {
	for i, r := range reserved {
		if r.service == service {
			return i
		}
	}
	return len(reserved)
}

// groups are what roles grant, ascending.
func (a *access) groups(roles []string) []string {
	var all []string
	for _, r := range roles {
		all = append(all, a.view.Roles.Get(r).Value.Allow...)
	}
	return sortedSet(all)
}

func sortedSet(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

func (a *access) grant(id string, roles []string) {
	for _, g := range a.groups(roles) {
		a.granted[g] = append(a.granted[g], id)
	}
}

// listKey is a list of names as a cache key. Each name stands behind its length, so
// two lists have one key only where they are equal, whatever the names hold.
func listKey(names []string) string {
	var key []byte
	for _, n := range names {
		key = binary.AppendUvarint(key, uint64(len(n)))
		key = append(key, n...)
	}
	return string(key)
}

// reachable are the targets that roles lead to. It is shared; do not change it.
func (a *access) reachable(roles []string) []int {
	key := listKey(roles)
	if have, ok := a.reach[key]; ok {
		return have
	}
	var all []int
	for _, g := range a.groups(roles) {
		all = append(all, a.inGroup[g]...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	a.reach[key] = all
	return all
}

// callers are the principals that may reach the target, but for itself.
func (a *access) callers(t *target) []string {
	key := listKey(t.Value.Groups)
	all, ok := a.allowed[key]
	if !ok {
		for _, g := range t.Value.Groups {
			all = append(all, a.granted[g]...)
		}
		all = sortedSet(all)
		a.allowed[key] = all
	}
	if i, self := slices.BinarySearch(all, t.id); self {
		return slices.Delete(slices.Clone(all), i, i+1)
	}
	return all
}
