package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

// slugs name policies for people, by id.
type slugs map[uuid.UUID]string

func slugsIn(list resource.NodePolicies) slugs {
	s := slugs{}
	for _, l := range list.Lines {
		s[l.Policy] = l.Slug
	}
	return s
}

// slugsOf are the slugs of the policies that match a node. Where they cannot be read,
// ids name policies.
func slugsOf(ctx context.Context, c *client.Client, node string) slugs {
	list, err := c.Nodes.Policies(ctx, node, true)
	if err != nil {
		return nil
	}
	return slugsIn(list)
}

// of is a policy's slug, else its id.
func (s slugs) of(id uuid.UUID) string {
	if name, ok := s[id]; ok {
		return name
	}
	return id.String()
}

// rule names a rule by its policy and its index there.
func (s slugs) rule(r *resource.RuleRef) string {
	if r == nil {
		return "default"
	}
	return ruleText(s.of(r.Policy), r.Index)
}

// namesPatience is how long a watch waits for the name of a policy.
const namesPatience = 2 * time.Second

// watchedNames names the policies of a node that is followed: by slug, else by id.
// Each policy that is not known is asked for once; now, those that the node has
// already, which may be deleted when an event names them. One that the node has no
// more is asked for in the project.
func watchedNames(ctx context.Context, c *client.Client, project uuid.UUID, node string, now bool) func(id uuid.UUID) string {
	known := slugs{}
	ask := func() {
		ctx, cancel := context.WithTimeout(ctx, namesPatience)
		defer cancel()
		for id, slug := range slugsOf(ctx, c, node) {
			known[id] = slug
		}
	}
	if now {
		ask()
	}
	return func(id uuid.UUID) string {
		if _, ok := known[id]; !ok {
			if ask(); known[id] == "" {
				known[id] = slugIn(ctx, c, project, id)
			}
		}
		return known.of(id)
	}
}

// slugIn is the slug of a policy of a project, else its id.
func slugIn(ctx context.Context, c *client.Client, project, id uuid.UUID) string {
	ctx, cancel := context.WithTimeout(ctx, namesPatience)
	defer cancel()
	p, err := c.Policies.Get(ctx, project, id)
	if err != nil {
		return id.String() // it is gone, or in another project
	}
	return p.Slug
}
