package author

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/document"
)

// fakePolicies keeps policies by slug; fail may refuse a write.
type fakePolicies struct {
	mu     sync.Mutex
	live   map[string]resource.Policy
	hidden map[string]bool // not yet listed: another author is faster
	fail   func(verb, slug string) error
	writes int
}

func (p *fakePolicies) All(context.Context, uuid.UUID) iter.Seq2[resource.Policy, error] {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []resource.Policy
	for slug, x := range p.live {
		if !p.hidden[slug] {
			list = append(list, x)
		}
	}
	p.hidden = nil
	return func(yield func(resource.Policy, error) bool) {
		for _, x := range list {
			if !yield(x, nil) {
				return
			}
		}
	}
}

func (p *fakePolicies) Create(_ context.Context, _ uuid.UUID, d resource.Draft, _ ...client.Call) (resource.Policy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	if p.fail != nil {
		if err := p.fail("create", d.Slug); err != nil {
			return resource.Policy{}, err
		}
	}
	if _, taken := p.live[d.Slug]; taken {
		return resource.Policy{}, resource.NewProblem(http.StatusConflict, "policy_slug_taken", "taken")
	}
	x := resource.Policy{ID: uuid.New(), Slug: d.Slug, HeadRevisionID: uuid.New(), DisplayName: d.DisplayName}
	p.live[d.Slug] = x
	return x, nil
}

func (p *fakePolicies) Revise(_ context.Context, _, id uuid.UUID, patch resource.Patch, _ ...client.Call) (resource.Policy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	for slug, x := range p.live {
		if x.ID != id {
			continue
		}
		if len(patch.Rules) > 1 { // what this fake takes for a change
			x.HeadRevisionID = uuid.New()
			p.live[slug] = x
		}
		return x, nil
	}
	return resource.Policy{}, resource.NewProblem(http.StatusNotFound, "policy_not_found", "gone")
}

func drafts(rules int, slugs ...string) (all []Draft) {
	for _, s := range slugs {
		all = append(all, Draft{Draft: resource.Draft{Slug: s, Rules: make([]resource.Rule, rules)}})
	}
	return all
}

func outcomes(results []Result) (out []string) {
	for _, r := range results {
		if r.Err != nil {
			out = append(out, "failed")
		} else {
			out = append(out, r.Outcome)
		}
	}
	return out
}

func apply(t *testing.T, p *fakePolicies, all []Draft) []Result {
	t.Helper()
	results, err := Apply(t.Context(), p, uuid.New(), all, func() {})
	require.NoError(t, err)
	return results
}

func TestApplyCreatesAndRevisesBySlug(t *testing.T) {
	p := &fakePolicies{live: map[string]resource.Policy{}}
	require.Equal(t, []string{Created, Created}, outcomes(apply(t, p, drafts(1, "a", "b"))))
	require.Equal(t, []string{Unchanged, Created, Unchanged}, outcomes(apply(t, p, drafts(1, "b", "c", "a"))))
	require.Equal(t, []string{Configured}, outcomes(apply(t, p, drafts(2, "b"))))
}

func TestApplyMeetsAnotherAuthor(t *testing.T) {
	p := &fakePolicies{live: map[string]resource.Policy{"a": {ID: uuid.New(), Slug: "a"}}, hidden: map[string]bool{"a": true}}
	require.Equal(t, []string{Unchanged}, outcomes(apply(t, p, drafts(1, "a"))), "created by the other meanwhile")

	lists := 0
	q := &flakyList{fakePolicies: fakePolicies{live: map[string]resource.Policy{}}, ghost: resource.Policy{ID: uuid.New(), Slug: "a"}, lists: &lists}
	results, err := Apply(t.Context(), q, uuid.New(), drafts(1, "a"), func() {})
	require.NoError(t, err)
	require.Equal(t, []string{Created}, outcomes(results), "deleted by the other meanwhile")
}

// flakyList lists a policy that is gone, once.
type flakyList struct {
	fakePolicies
	ghost resource.Policy
	lists *int
}

func (p *flakyList) All(ctx context.Context, project uuid.UUID) iter.Seq2[resource.Policy, error] {
	if *p.lists++; *p.lists == 1 {
		return func(yield func(resource.Policy, error) bool) { yield(p.ghost, nil) }
	}
	return p.fakePolicies.All(ctx, project)
}

func TestApplyGoesOnAfterARefusalButNotWithoutAPlane(t *testing.T) {
	var slugs []string
	for i := range 200 {
		slugs = append(slugs, fmt.Sprintf("p-%d", i))
	}
	p := &fakePolicies{live: map[string]resource.Policy{}, fail: func(_, slug string) error {
		if slug == "p-3" {
			return resource.NewProblem(http.StatusForbidden, "forbidden", "no")
		}
		return nil
	}}
	results := apply(t, p, drafts(1, slugs...))
	require.Error(t, results[3].Err)
	require.Len(t, p.live, 199)

	p = &fakePolicies{live: map[string]resource.Policy{}, fail: func(_, slug string) error {
		return &client.UnavailableError{Server: "x", Err: errors.New("gone")}
	}}
	results = apply(t, p, drafts(1, slugs...))
	require.Less(t, p.writes, 100, "the rest is not tried")
	require.EqualError(t, results[199].Err, "not tried: the plane is gone")
	require.ErrorIs(t, results[199].Err, ErrNotTried)
}

// Who interrupts many writes is told which were not tried, and that others may be written.
func TestWhatIsInterruptedIsNotSaidToHaveFailed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var slugs []string
	for i := range 200 {
		slugs = append(slugs, fmt.Sprintf("p-%d", i))
	}
	p := &fakePolicies{live: map[string]resource.Policy{}, fail: func(string, string) error {
		cancel()
		return context.Canceled
	}}
	results, err := Apply(ctx, p, uuid.New(), drafts(1, slugs...), func() {})
	require.ErrorIs(t, err, context.Canceled)
	sent := slices.IndexFunc(results, func(r Result) bool { return errors.Is(r.Err, context.Canceled) })
	require.GreaterOrEqual(t, sent, 0)
	require.ErrorContains(t, results[sent].Err, "the plane may have it; apply it again")
	require.EqualError(t, results[199].Err, "not tried: the command was interrupted")
}

func TestAWriteThatIsNotVisibleYetIsRepeated(t *testing.T) {
	tries := 0
	p := &fakePolicies{live: map[string]resource.Policy{}, fail: func(string, string) error {
		if tries++; tries == 1 {
			return resource.NewProblem(http.StatusServiceUnavailable, "projection_behind", "later")
		}
		return nil
	}}
	require.Equal(t, []string{Created}, outcomes(apply(t, p, drafts(1, "a"))))
	require.Equal(t, 2, tries)
}

func TestDraftsTellsEveryFaultOfEveryDocument(t *testing.T) {
	const good = `{"slug":"%s","selector":{"source":"a","destination":"b"},"rules":[{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]}` + "\n"
	text := fmt.Sprintf(good, "one") + fmt.Sprintf(good, "Two") + fmt.Sprintf(good, "one") + `{"slug":"x","rules":[{"action":"no"}]}`
	docs, faults := document.Parse("f", []byte(text))
	require.Empty(t, faults)
	list, faults := Drafts(docs)
	require.Len(t, list, 1)
	var lines []int
	for _, f := range faults {
		require.False(t, f.Unreadable)
		lines = append(lines, f.Line)
	}
	require.Subset(t, lines, []int{2, 3, 4})
	require.Greater(t, len(faults), 4)
	require.Contains(t, faults[1].Message, "written twice, first at f:1")
}

func TestImportKeepsTheOrderOfASlugAndGoesOn(t *testing.T) {
	p := &fakePolicies{live: map[string]resource.Policy{}, fail: func(_, slug string) error {
		if slug == "p-3" {
			return resource.NewProblem(http.StatusForbidden, "forbidden", "no")
		}
		return nil
	}}
	var all []Draft
	for i := range 100 {
		slug := fmt.Sprintf("p-%d", i%10)
		all = append(all, drafts(1+i/50, slug)...)
	}
	var mu sync.Mutex
	told := map[string][]string{}
	require.NoError(t, Import(t.Context(), p, uuid.New(), slices.Values(all), func(d Draft, r Result) {
		mu.Lock()
		defer mu.Unlock()
		told[d.Slug] = append(told[d.Slug], fmt.Sprintf("%d %s", len(d.Rules), outcomes([]Result{r})[0]))
	}))
	for slug, got := range told {
		want := []string{
			"1 created", "1 unchanged", "1 unchanged", "1 unchanged", "1 unchanged",
			"2 configured", "2 configured", "2 configured", "2 configured", "2 configured",
		}
		if slug == "p-3" {
			for i := range want {
				want[i] = want[i][:2] + "failed"
			}
		}
		require.Equal(t, want, got, slug)
	}
	require.Len(t, told, 10)
}

// What a dry run would have made has no id that the plane knows: what revises it is judged
// as a whole, with its place among others.
func TestADryRunJudgesTheOrderOfWhatItWouldRevise(t *testing.T) {
	p := &fakePolicies{live: map[string]resource.Policy{}}
	priority, deny := uint32(7), false
	order := resource.Order{Tier: "admin", Priority: &priority, DefaultDeny: &deny, Mode: "audit"}
	seen := &seenDrafts{fakePolicies: p}
	all := append(drafts(1, "a"), Draft{Draft: resource.Draft{Slug: "a", Order: order, Rules: make([]resource.Rule, 2)}})
	require.NoError(t, Import(t.Context(), DryRun(seen, resource.Project{}), uuid.New(), slices.Values(all), func(_ Draft, r Result) {
		require.NoError(t, r.Err)
	}))
	require.Equal(t, []resource.Order{{}, order}, seen.orders)
}

// seenDrafts takes every draft, and makes none.
type seenDrafts struct {
	*fakePolicies
	orders []resource.Order
}

func (p *seenDrafts) Create(_ context.Context, _ uuid.UUID, d resource.Draft, _ ...client.Call) (resource.Policy, error) {
	p.orders = append(p.orders, d.Order)
	return resource.Policy{}, nil
}

func TestImportEndsWithThePlane(t *testing.T) {
	p := &fakePolicies{live: map[string]resource.Policy{}, fail: func(string, string) error {
		return &client.UnavailableError{Server: "x", Err: errors.New("gone")}
	}}
	endless := func(yield func(Draft) bool) {
		for i := 0; yield(drafts(1, fmt.Sprintf("p-%d", i))[0]); i++ {
		}
	}
	var away *client.UnavailableError
	require.ErrorAs(t, Import(t.Context(), p, uuid.New(), endless, func(Draft, Result) {}), &away)

	ctx, cancel := context.WithCancel(t.Context())
	p.fail = func(string, string) error { cancel(); return ctx.Err() }
	require.ErrorIs(t, Import(ctx, p, uuid.New(), endless, func(Draft, Result) {}), context.Canceled)
}
