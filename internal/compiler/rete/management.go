package rete

import "slices"

// ruleManagement is rule 6: where nodes fetch their state, and operators push
// it.
func (c *checker) ruleManagement() {
	var found []*Entry[Service]
	for _, r := range reserved {
		s := c.view.Services.Get(r.service)
		if s == nil {
			c.add("6", c.anchor(), "services."+r.service, "service %q is missing: without it nodes cannot sync; declare it in group %s", r.service, r.group)
			continue
		}
		found = append(found, s)
		if !slices.Contains(s.Value.Groups, r.group) {
			c.add("6", s.at("groups"), s.title(), "service %q must be in group %s, or nobody may reach it; add the group", r.service, r.group)
		}
	}
	if len(found) < len(reserved) {
		return
	}
	server, publisher := found[0], found[1]
	if server.Value.At != publisher.Value.At {
		c.add("6", publisher.at("at"), publisher.title(), "%s is at node %q and %s at %q; both must be on the same node, the management node",
			ConfigServer, server.Value.At, ConfigPublisher, publisher.Value.At)
		return
	}
	node := c.view.Nodes.Get(server.Value.At)
	if node == nil {
		return // rule 5
	}
	public := func(v Vertex) bool { return v.Kind == KindLink && v.Type == TypeQUIC && v.Address.IsValid() }
	if !slices.ContainsFunc(node.Value.Vertices, public) {
		c.add("6", node.at("vertices"), node.title(), "the management node %q needs a vertex of kind link and type quic with an address, where every node can dial it", node.Name)
	}
}

// anchor is where the rete block stands, the place of what is missing as a
// whole.
func (c *checker) anchor() place { return c.view.Rete.here() }

// ruleReserved is rule 7.
func (c *checker) ruleReserved() {
	for _, r := range reserved {
		if c.view.Groups.Get(r.group) == nil {
			c.add("7", c.anchor(), "groups."+r.group, "the reserved group %q is missing; add it to groups", r.group)
		}
		role := c.view.Roles.Get(r.role)
		switch {
		case role == nil:
			c.add("7", c.anchor(), "roles."+r.role, "the reserved role %q is missing; add it to roles with allow: [%s]", r.role, r.group)
		case !slices.Equal(role.Value.Allow, []string{r.group}):
			c.add("7", role.at("allow"), role.title(), "the reserved role %q must have allow: [%s], got %s; grant other groups by a role of another name",
				r.role, r.group, quoted(role.Value.Allow))
		}
	}
}

// ruleReservedMembers is the other half of rule 7: nobody else is in the reserved
// groups, grants them, or has the role of nodes.
func (c *checker) ruleReservedMembers() {
	for _, r := range reserved {
		for _, s := range c.view.Services.All {
			if i := slices.Index(s.Value.Groups, r.group); i >= 0 && s.Name != r.service {
				c.add("7", s.at("groups", i), s.title(), "%s is in the reserved group %q, which is that of %s alone; put it in a group of its own", s.title(), r.group, r.service)
			}
		}
		for _, role := range c.view.Roles.All {
			if i := slices.Index(role.Value.Allow, r.group); i >= 0 && role.Name != r.role {
				c.add("7", role.at("allow", i), role.title(), "%s grants the reserved group %q, which the role %s alone does; give that role instead", role.title(), r.group, r.role)
			}
		}
	}
	mine := func(at place, title string) {
		c.add("7", at, title, "%s has the role %s, which nodes have and nobody else; remove it", title, RoleNode)
	}
	for _, u := range c.view.Users.All {
		if i := slices.Index(u.Value.Roles, RoleNode); i >= 0 {
			mine(u.at("roles", i), u.title())
		}
	}
	for _, s := range c.view.Services.All {
		if i := slices.Index(s.Value.Roles, RoleNode); i >= 0 {
			mine(s.at("roles", i), s.title())
		}
	}
}

// ruleOperator is rule 8.
func (c *checker) ruleOperator() {
	for _, u := range c.view.Users.All {
		if slices.Contains(u.Value.Roles, RoleOperator) {
			return
		}
	}
	c.add("8", c.anchor(), "", "no user has the role %s, so nobody can push new state to the rete; give it to at least one", RoleOperator)
}
