package author

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/policy"
)

// fakeAdmission keeps admission policies by name, of which no two have one priority.
type fakeAdmission struct {
	mu   sync.Mutex
	dry  bool
	live map[string]int // priorities
}

func (p *fakeAdmission) All(context.Context, url.Values) iter.Seq2[resource.AdmissionPolicy, error] {
	return func(yield func(resource.AdmissionPolicy, error) bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for name, priority := range p.live {
			if !yield(resource.AdmissionPolicy{ID: name, Name: name, PolicyType: "Global", Priority: priority, Version: 1}, nil) {
				return
			}
		}
	}
}

func (p *fakeAdmission) put(body json.RawMessage) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var d struct {
		Name     string
		Priority int
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return "", err
	}
	for name, priority := range p.live {
		if name != d.Name && priority == d.Priority {
			return "", resource.NewProblem(http.StatusConflict, "priority_taken", "priority %d belongs to %s", priority, name)
		}
	}
	if !p.dry {
		p.live[d.Name] = d.Priority
	}
	return d.Name, nil
}

func (p *fakeAdmission) Create(_ context.Context, d json.RawMessage, _ ...client.Call) (resource.AdmissionID, error) {
	id, err := p.put(d)
	return resource.AdmissionID{ID: id}, err
}

func (p *fakeAdmission) Replace(_ context.Context, _ string, d json.RawMessage, _ uint64, _ ...client.Call) (resource.AdmissionPolicy, error) {
	id, err := p.put(d)
	return resource.AdmissionPolicy{ID: id, Version: 2}, err
}

func TestPrioritiesMoveOn(t *testing.T) {
	for _, dry := range []bool{false, true} {
		for _, c := range []struct {
			name, want string
			have       map[string]int
			files      []string
			to         []int32
		}{
			{"each to the next", "a configured; b configured; c configured; ", map[string]int{"a": 10, "b": 20, "c": 30}, []string{"a", "b", "c"}, []int32{20, 30, 40}},
			{"a new one to that of another", "n created; a configured; ", map[string]int{"a": 10}, []string{"n", "a"}, []int32{10, 20}},
			{"to that of one that stays", "n priority 10 belongs to a (priority_taken); ", map[string]int{"a": 10}, []string{"n"}, []int32{10}},
			{
				"two that exchange theirs, and a third", "a priority 20 belongs to b (priority_taken); b gives it up in the same files, and waits in turn: give one of them a free priority first, and apply again; " +
					"b priority 10 belongs to a (priority_taken); a gives it up in the same files, and waits in turn: give one of them a free priority first, and apply again; c configured; ",
				map[string]int{"a": 10, "b": 20, "c": 30},
				[]string{"a", "b", "c"},
				[]int32{20, 10, 40},
			},
		} {
			t.Run(fmt.Sprintf("%s, dry: %t", c.name, dry), func(t *testing.T) {
				p := &fakeAdmission{dry: dry, live: c.have}
				drafts := make([]AdmissionDraft, len(c.files))
				for i, name := range c.files {
					drafts[i].AdmissionPolicy = policy.AdmissionPolicy{Name: name, Level: policy.Global, Priority: c.to[i]}
				}
				results, err := ApplyAdmission(t.Context(), p, drafts, dry, func() {})
				require.NoError(t, err)
				said := ""
				for i, r := range results {
					became := r.Outcome
					if r.Err != nil {
						became = r.Err.Error()
					}
					said += c.files[i] + " " + became + "; "
				}
				require.Equal(t, c.want, said)
			})
		}
	}
}
