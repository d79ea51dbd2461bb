package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/compiler/lint"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// outside says that a policy does not touch a node that it matches.
func outside(n policy.Node, id, slug string) resource.Fault {
	return resource.Fault{
		Pointer: "/policies/" + id, Code: CodeOutside,
		Detail: fmt.Sprintf("node %s matches policy %s, and its addresses (%s) are in none of the CIDRs of its rules: the policy does not apply to it",
			n.ID, slug, addressText(n)),
	}
}

func addressText(n policy.Node) string {
	texts := make([]string, len(n.Addresses))
	for i, a := range n.Addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}

// untouched warns, once, of the nodes that a content matches and does not touch. It
// looks at a few nodes at a time: the fold waits meanwhile.
func untouched(model views, content policy.Content, matched sides, proceed func() error) ([]lint.Warning, error) {
	const part, names = 256, 3
	all := slices.Collect(union(matched.source, matched.destination))
	content.Order.Audit = false // it says what would be if the policy were in force
	reach, plain, found := datapath.NewReach(content), !content.Extended(), lint.Nodes{}
	for list := range slices.Chunk(all, part) {
		if err := proceed(); err != nil {
			return nil, err
		}
		model.Read(func(v *projector.View) {
			for _, m := range list {
				if it, ok := v.Node(m.ID); ok && reach.Misses(it.Node, plain) {
					if found.Count++; found.Count <= names {
						found.First = append(found.First, m.ID)
					}
				}
			}
		})
	}
	if found.Count == 0 {
		return nil, nil
	}
	return []lint.Warning{lint.Outside(found)}, nil
}
