package tour

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/demodata"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/policy"
)

// world is what the tour itself knows: the facts it wrote to the plane, and which
// selectors they satisfy. The plane's answers are held against it.
type world struct {
	drafts   []author.Draft
	nodes    []demodata.Facts
	policies map[string]*living // by slug

	// Two web machines of production: one becomes something else, one is away
	// for a while.
	mover, traveller int
}

// living is a policy that exists.
type living struct {
	id       uuid.UUID
	selector policy.Selector
}

// pair is one (node, policy) row.
type pair struct {
	node   string
	policy uuid.UUID
}

func newWorld(nodes int) (*world, error) {
	docs, faults := document.Parse("policies.yaml", demodata.Policies)
	drafts, more := author.Drafts(docs)
	if faults = append(faults, more...); len(faults) > 0 {
		return nil, fmt.Errorf("the shipped policies: %s", faults[0])
	}
	w := &world{drafts: drafts, policies: map[string]*living{}}
	for i := range nodes {
		n := demodata.Node(i)
		w.nodes = append(w.nodes, n)
		if n.Labels["role"] == "web" && n.Labels["env"] == "prod" {
			w.mover, w.traveller = w.traveller, i // the last two
		}
	}
	return w, nil
}

// published notes a policy as it is now.
func (w *world) published(p resource.Policy, sel resource.Selector) error {
	source, errs := policy.ParseExpr(sel.Source)
	destination, more := policy.ParseExpr(sel.Destination)
	if errs = append(errs, more...); len(errs) > 0 {
		return errs[0]
	}
	w.policies[p.Slug] = &living{p.ID, policy.Selector{Source: source, Destination: destination}}
	return nil
}

// draft is a policy as it was shipped.
func (w *world) draft(slug string) author.Draft {
	for _, d := range w.drafts {
		if d.Slug == slug {
			return d
		}
	}
	return author.Draft{}
}

// lines are the nodes as an import reads them.
func (w *world) lines() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, n := range w.nodes {
		_ = enc.Encode(n) // a buffer takes everything
	}
	return b.Bytes()
}

// labelSet is a key for a node's labels.
func labelSet(labels map[string]string) string {
	b, _ := json.Marshal(labels) // sorted by key
	return string(b)
}

// labelSets counts the distinct label sets of nodes that satisfy match.
func (w *world) labelSets(match func(policy.Labels) bool) (sets, nodes int) {
	seen := map[string]bool{}
	for _, n := range w.nodes {
		key := labelSet(n.Labels)
		matched, known := seen[key]
		if !known {
			matched = match(labels(n.Labels))
			seen[key] = matched
			if matched {
				sets++
			}
		}
		if matched {
			nodes++
		}
	}
	return sets, nodes
}

// labels are labels that are known to be sound.
func labels(m map[string]string) policy.Labels {
	l, err := policy.NewLabels(m, "")
	if err != nil {
		panic(err) // shipped data, checked by its own tests
	}
	return l
}

// matched are the nodes of a policy.
func (w *world) matched(slug string) []string {
	p := w.policies[slug]
	seen := map[string]bool{}
	var ids []string
	for _, n := range w.nodes {
		key := labelSet(n.Labels)
		m, known := seen[key]
		if !known {
			m = p.selector.Matches(labels(n.Labels))
			seen[key] = m
		}
		if m {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// rows are all rows there must be.
func (w *world) rows() map[pair]bool {
	all := map[pair]bool{}
	for slug, p := range w.policies {
		for _, id := range w.matched(slug) {
			all[pair{id, p.id}] = true
		}
	}
	return all
}

// rowsOf are the policies of one node.
func (w *world) rowsOf(n demodata.Facts) map[uuid.UUID]bool {
	l := labels(n.Labels)
	all := map[uuid.UUID]bool{}
	for _, p := range w.policies {
		if p.selector.Matches(l) {
			all[p.id] = true
		}
	}
	return all
}
