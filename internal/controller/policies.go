package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
	"github.com/edictdev/edict/policy"
)

// Policies is the little that is asked of a plane about policies; client.Policies are it.
type Policies interface {
	All(ctx context.Context, project uuid.UUID) iter.Seq2[resource.Policy, error]
	Create(ctx context.Context, project uuid.UUID, d resource.Draft, calls ...client.Call) (resource.Policy, error)
	Revise(ctx context.Context, project, id uuid.UUID, p resource.Patch, calls ...client.Call) (resource.Policy, error)
	Delete(ctx context.Context, project, id uuid.UUID, calls ...client.Call) error
	Rollout(ctx context.Context, project, id uuid.UUID, limit int) (resource.Rollout, error)
}

// authors bounds the writes in flight: the log makes one batch of what waits together.
const authors = 16

// ours is what the plane has of a policy of ours. An empty draft: what it says is not
// known, since it was read from a list.
type ours struct {
	id, head uuid.UUID
	draft    string
}

// policyWriter brings the plane's policies to what the cluster's say.
type policyWriter struct {
	opt  Options
	view *view
	wake chan struct{}
	room later

	mu      sync.Mutex
	since   time.Time // of the oldest change that is not written
	plane   map[string]ours
	objects map[string]*reported // by id of the object
	wanted  map[string]string    // bodies of what the plane is to have, by slug; nobody changes it
	refused map[string]string    // why the plane does not take a policy, by slug
}

func newPolicyWriter(opt Options, v *view) *policyWriter {
	w := &policyWriter{opt: opt, view: v, wake: make(chan struct{}, 1), plane: map[string]ours{}, objects: map[string]*reported{}, refused: map[string]string{}}
	v.policed = w.changed
	w.room = later{after: opt.RoomEvery, changed: func(string) { w.changed() }}
	return w
}

func (w *policyWriter) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.plane)
}

func (w *policyWriter) changed() {
	w.mu.Lock()
	if w.since.IsZero() {
		w.since = time.Now()
	}
	w.mu.Unlock()
	wakeUp(w.wake)
}

// begin reads what the plane has, and brings it to what the cluster says, once.
func (w *policyWriter) begin(ctx context.Context) bool {
	return w.opt.insist(ctx, "read policies", func() error { return w.look(ctx) }) &&
		w.opt.insist(ctx, "write policies", func() error { return w.all(ctx) })
}

func (w *policyWriter) look(ctx context.Context) error {
	plane := map[string]ours{}
	for p, err := range w.opt.Policies.All(ctx, w.opt.Project) {
		if err != nil {
			return err
		}
		if translate.Owns(p.Slug) {
			plane[p.Slug] = ours{id: p.ID, head: p.HeadRevisionID}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for slug, was := range w.plane {
		if has := plane[slug]; was.id == has.id && was.head == has.head {
			plane[slug] = was // what it says is known
		} else {
			w.opt.Log.Warn("somebody else changed a policy of the cluster in the plane, and it is put back", "policy", slug)
		}
	}
	w.plane = plane
	return nil
}

// run writes what changes, until ctx ends.
func (w *policyWriter) run(ctx context.Context) {
	w.opt.each(ctx, w.wake, func() bool { return w.catchUp(ctx) }, func() bool { return w.begin(ctx) })
}

// catchUp writes what changed, and reports whether ctx goes on.
func (w *policyWriter) catchUp(ctx context.Context) bool {
	w.mu.Lock()
	since := w.since
	w.since = time.Time{}
	w.mu.Unlock()
	if since.IsZero() {
		return true
	}
	if !w.opt.insist(ctx, "write policies", func() error { return w.all(ctx) }) {
		return false
	}
	w.opt.Metrics.caughtUp(map[string]time.Time{"": since})
	return true
}

// want is what the cluster's policies become.
type want struct {
	drafts map[string]string // their bodies, by slug
	keep   map[string]bool   // slugs of which what the plane has stays
}

// all translates the cluster's policies, and writes what differs.
func (w *policyWriter) all(ctx context.Context) error {
	objects, whole := w.view.objects()
	if !whole {
		return errors.New("a kind of policies is not read yet")
	}
	todo := w.translate(objects)
	// What fails keeps others from beginning. Those under way go on: a write that is given up
	// may have been taken, and then we would not know it.
	g, more := errgroup.WithContext(ctx)
	g.SetLimit(authors)
	for _, slug := range slices.Sorted(maps.Keys(todo.drafts)) {
		g.Go(func() error {
			if more.Err() != nil {
				return nil
			}
			return w.write(ctx, slug, todo.drafts[slug])
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	// Those that go last: what replaces them is in force by then.
	for _, slug := range w.slugs() {
		if _, stays := todo.drafts[slug]; !stays && !todo.keep[slug] {
			if err := w.remove(ctx, slug); err != nil {
				return err
			}
		}
	}
	w.opt.Metrics.policies.Set(float64(w.count()))
	return nil
}

func (w *policyWriter) slugs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.plane))
}

// inOrder is which of two objects goes first, where both make a policy of one slug: the
// older, which nobody can put another before.
func inOrder(a, b *unstructured.Unstructured) int {
	return cmp.Or(
		a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		strings.Compare(a.GetNamespace(), b.GetNamespace()),
		strings.Compare(a.GetName(), b.GetName()),
		strings.Compare(a.GetKind(), b.GetKind()),
	)
}

// translate makes drafts of the objects, and notes of each what is to be reported. An
// object that cannot be expressed without letting more through keeps the policies that
// it had.
func (w *policyWriter) translate(objects []*unstructured.Unstructured) want {
	slices.SortFunc(objects, inOrder)
	docs := make([][]byte, len(objects))
	for i, o := range objects {
		lean := o.DeepCopy()
		lean.SetManagedFields(nil)
		unstructured.RemoveNestedField(lean.Object, "status")
		docs[i], _ = json.Marshal(lean.Object)
	}
	res := translate.Translate(docs, translate.Options{Machines: true, Whole: true})
	about := make([]reported, len(objects))
	for i, o := range objects {
		about[i] = reported{object: o}
	}
	for _, item := range res.Items {
		about[item.Document].items = append(about[item.Document].items, item)
	}
	out := want{map[string]string{}, map[string]bool{}}
	for _, p := range res.Policies {
		if translate.Rest(p.Slug) {
			out.drafts[p.Slug] = string(policy.AppendDraft(nil, p.Draft))
			continue
		}
		about[p.Document].slugs = append(about[p.Document].slugs, p.Slug)
		if !about[p.Document].wider() {
			out.drafts[p.Slug] = string(policy.AppendDraft(nil, p.Draft))
		}
	}
	w.note(about, out)
	return out
}

// note keeps what is to be reported of each object.
func (w *policyWriter) note(about []reported, out want) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, incomplete, held := map[string]*reported{}, 0, 0
	taken := map[string]bool{} // slugs, by the objects that go first
	for _, t := range about {
		id := t.id()
		before := w.objects[id]
		if before != nil {
			t.shown, t.at = before.shown, before.at
		}
		if len(t.items) > 0 {
			incomplete++
		}
		may := translate.Slugs(t.object.GetKind(), t.object.GetNamespace(), t.object.GetName())
		if t.wider() {
			held++
			// Of what the plane has of it nothing goes, whoever wrote it; of another's, whatever
			// that says.
			t.slugs = slices.DeleteFunc(slices.Clone(may), func(slug string) bool { return taken[slug] })
			for _, slug := range t.slugs {
				out.keep[slug] = true
			}
			if before == nil || before.reasons() != t.reasons() {
				w.opt.Log.Warn("a policy is held: it would let more through than it says", "object", id, "detail", t.reasons())
			}
		}
		for _, slug := range may {
			taken[slug] = true
		}
		now[id] = &t
	}
	w.objects = now
	for slug, body := range out.drafts {
		if has := w.plane[slug].draft; has == body {
			out.drafts[slug] = has // one text of the two
		}
	}
	w.wanted = out.drafts
	maps.DeleteFunc(w.refused, func(slug, _ string) bool { return out.drafts[slug] == "" })
	w.opt.Metrics.translated(incomplete, held)
}

// write brings one policy to its draft.
func (w *policyWriter) write(ctx context.Context, slug, body string) error {
	w.mu.Lock()
	has, exists := w.plane[slug]
	same := exists && has.draft == body
	if same {
		delete(w.refused, slug)
	}
	w.mu.Unlock()
	if same {
		return nil
	}
	var draft resource.Draft
	if err := json.Unmarshal([]byte(body), &draft); err != nil {
		return err
	}
	var p resource.Policy
	err := w.opt.paced(ctx, func() (err error) {
		if exists {
			p, err = w.opt.Policies.Revise(ctx, w.opt.Project, has.id, resource.Patch{Selector: &draft.Selector, NewOrder: draft.Order.Whole(), Rules: draft.Rules})
		} else {
			p, err = w.opt.Policies.Create(ctx, w.opt.Project, draft)
		}
		return err
	})
	var refused *client.Problem
	switch {
	case errors.As(err, &refused) && forThisOne(refused):
		// Trying again at once would not help; others go on.
		if noRoom(refused.Code) || refused.Code == rolloutUnderWay {
			w.room.note(slug)
		}
		w.opt.Metrics.left("policy")
		w.opt.Log.Error("the plane refused a policy", "policy", slug, "error", err)
		w.mu.Lock()
		w.refused[slug] = refused.Detail
		w.mu.Unlock()
		return nil
	case refused != nil && (refused.Status == http.StatusNotFound || refused.Status == http.StatusConflict):
		// Somebody else was at work.
		return errors.Join(err, w.look(ctx))
	case err != nil:
		return err
	}
	if p.HeadRevisionID != has.head {
		w.opt.Metrics.wrote("policy", 1)
	}
	w.mu.Lock()
	delete(w.refused, slug)
	w.plane[slug] = ours{p.ID, p.HeadRevisionID, body}
	w.mu.Unlock()
	return nil
}

// forThisOne reports whether the plane refused one policy, and not everything that we ask.
func forThisOne(p *client.Problem) bool {
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return false
	case http.StatusTooManyRequests:
		return noRoom(p.Code)
	case http.StatusConflict:
		return slices.Contains(ofThePolicy, p.Code)
	}
	return p.Status < http.StatusInternalServerError
}

// remove deletes a policy whose object went.
func (w *policyWriter) remove(ctx context.Context, slug string) error {
	w.mu.Lock()
	has := w.plane[slug]
	w.mu.Unlock()
	err := w.opt.paced(ctx, func() error { return w.opt.Policies.Delete(ctx, w.opt.Project, has.id) })
	var gone *client.Problem
	if errors.As(err, &gone) && gone.Status == http.StatusNotFound {
		err = nil
	}
	if err != nil {
		return err
	}
	w.opt.Metrics.wrote("policy", 1)
	w.mu.Lock()
	delete(w.plane, slug)
	w.mu.Unlock()
	return nil
}
