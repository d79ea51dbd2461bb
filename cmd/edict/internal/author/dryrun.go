package author

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
)

// DryRun are policies that are judged and not written. The plane judges each write by what
// there is; what the writes before it would leave is kept here: what they make of policies, and
// how much of the project's quota they spend. of is the project with what it uses; the zero one
// has no quota.
func DryRun(p Policies, of resource.Project) Policies {
	return &dryRun{Policies: p, project: of, left: map[uuid.UUID]*left{}}
}

type dryRun struct {
	Policies
	project resource.Project
	mu      sync.Mutex
	created uint64
	written uint64
	left    map[uuid.UUID]*left // by policy
}

// left is a policy as writes would leave it.
type left struct {
	slug    string
	head    uuid.UUID
	made    bool   // there is none yet
	content []byte // of the last write; nil: there was none
}

func (p *dryRun) All(ctx context.Context, project uuid.UUID) iter.Seq2[resource.Policy, error] {
	return func(yield func(resource.Policy, error) bool) {
		for x, err := range p.Policies.All(ctx, project) {
			if err == nil {
				p.see(x)
			}
			if !yield(x, err) {
				return
			}
		}
	}
}

func (p *dryRun) see(x resource.Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left[x.ID] == nil {
		p.left[x.ID] = &left{slug: x.Slug, head: x.HeadRevisionID}
	}
}

func (p *dryRun) Create(ctx context.Context, project uuid.UUID, d resource.Draft, calls ...client.Call) (resource.Policy, error) {
	if _, err := p.Policies.Create(ctx, project, d, append(calls, client.DryRun)...); err != nil {
		return resource.Policy{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.project; q.Quota.Policies > 0 && q.Used.Policies+p.created >= q.Quota.Policies {
		return resource.Policy{}, overQuota(fmt.Sprintf("it would have %d policies", q.Quota.Policies))
	}
	if err := p.spend(); err != nil {
		return resource.Policy{}, err
	}
	p.created++
	x := &left{slug: d.Slug, head: uuid.New(), made: true, content: contentOf(Draft{Draft: d}.Patch())}
	id := uuid.New()
	p.left[id] = x
	return x.policy(id), nil
}

func (p *dryRun) Revise(ctx context.Context, project, id uuid.UUID, patch resource.Patch, calls ...client.Call) (resource.Policy, error) {
	before, changes, err := p.judge(ctx, project, id, patch, append(calls, client.DryRun))
	if err != nil {
		return resource.Policy{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	content := contentOf(patch)
	if before.content != nil {
		changes = !bytes.Equal(before.content, content)
	}
	if changes {
		if err := p.spend(); err != nil {
			return resource.Policy{}, err
		}
		before.head = uuid.New()
		before.content = content
	}
	return before.policy(id), nil
}

// judge asks the plane about a revision, and whether it changes what is there. Of a policy that
// an earlier write would make the plane knows nothing: that write was judged as a whole.
func (p *dryRun) judge(ctx context.Context, project, id uuid.UUID, patch resource.Patch, calls []client.Call) (before *left, changes bool, err error) {
	p.mu.Lock()
	before = p.left[id]
	p.mu.Unlock()
	if before == nil {
		before = &left{}
	}
	if !before.made {
		x, err := p.Policies.Revise(ctx, project, id, patch, calls...)
		return before, x.HeadRevisionID == uuid.Nil, err
	}
	d := resource.Draft{Slug: before.slug, Selector: *patch.Selector, Rules: patch.Rules}
	if patch.DisplayName != nil {
		d.DisplayName = *patch.DisplayName
	}
	if patch.NewOrder != nil {
		d.Order = patch.NewOrder.Order()
	}
	_, err = p.Policies.Create(ctx, project, d, calls...)
	return before, true, err
}

// spend counts a write against the events that the project may add in a day.
func (p *dryRun) spend() error {
	if q := p.project; q.Quota.EventsPerDay > 0 && q.Used.EventsPerDay+p.written >= q.Quota.EventsPerDay {
		return overQuota(fmt.Sprintf("it would have had %d events in a day", q.Quota.EventsPerDay))
	}
	p.written++
	return nil
}

func (x *left) policy(id uuid.UUID) resource.Policy {
	return resource.Policy{ID: id, Slug: x.slug, HeadRevisionID: x.head}
}

func overQuota(why string) error {
	return resource.NewProblem(http.StatusTooManyRequests, projector.CodeQuotaExceeded,
		"the project has a quota, and %s with what is written before", why)
}

// contentOf tells what writes say apart.
func contentOf(patch resource.Patch) []byte {
	text, _ := json.Marshal(patch) // of what was JSON
	return text
}
