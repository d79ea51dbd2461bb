package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/edictdev/edict/api/resource"
	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
)

// reported is what is to be reported of an object, and what was.
type reported struct {
	object *unstructured.Unstructured
	slugs  []string // of its policies in the plane
	items  []translate.Item
	shown  string // what was written last
	at     time.Time
}

// id is its place in the cluster.
func (t *reported) id() string {
	return t.object.GetKind() + " " + t.object.GetNamespace() + "/" + t.object.GetName()
}

// wider: what can be expressed of it would let more through.
func (t *reported) wider() bool {
	return slices.ContainsFunc(t.items, func(i translate.Item) bool { return i.Wider })
}

// maxMessage is the length of the longest message of a condition or an Event, in bytes;
// Kubernetes takes 1024 of an Event's.
const maxMessage = 1000

// reasons are what cannot be expressed of the object, in a line each.
func (t *reported) reasons() string {
	lines := make([]string, len(t.items))
	for i, item := range t.items {
		lines[i] = strings.TrimPrefix(item.Pointer+": ", ": ") + item.Reason
	}
	all := strings.Join(lines, "\n")
	if len(all) > maxMessage {
		all = strings.ToValidUTF8(all[:maxMessage], "") + "…"
	}
	return all
}

// tell writes what became of policies back, until ctx ends.
func (w *policyWriter) tell(ctx context.Context) {
	every := time.NewTicker(w.opt.StatusEvery)
	defer every.Stop()
	for {
		w.tellAll(ctx)
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// reports is what there is to say of each object, with what the plane said against it.
func (w *policyWriter) reports() (all []reported) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.objects {
		now := *t
		now.items = slices.Clone(t.items)
		for _, slug := range t.slugs {
			if why := w.refused[slug]; why != "" {
				now.items = append(now.items, translate.Item{Reason: "the plane refused " + slug + ": " + why, Wider: true})
			}
		}
		all = append(all, now)
	}
	slices.SortFunc(all, func(a, b reported) int { return strings.Compare(a.id(), b.id()) })
	return all
}

func (w *policyWriter) tellAll(ctx context.Context) {
	for _, t := range w.reports() {
		if ctx.Err() != nil {
			return
		}
		var err error
		if t.object.GetKind() == "NetworkPolicy" {
			err = w.tellEvent(ctx, &t)
		} else {
			err = w.tellStatus(ctx, &t)
		}
		if err != nil && ctx.Err() == nil {
			w.opt.Metrics.failed("status")
			w.opt.Log.Warn("what became of a policy could not be written back", "object", t.id(), "error", err)
			continue
		}
		w.mu.Lock()
		if now := w.objects[t.id()]; now != nil {
			now.shown, now.at = t.shown, t.at
		}
		w.mu.Unlock()
	}
}

// tellEvent makes an Event beside a NetworkPolicy of which something cannot be
// expressed. Its name says of what, so that a controller that starts again makes none.
func (w *policyWriter) tellEvent(ctx context.Context, t *reported) error {
	why := t.reasons()
	if why == "" || t.shown == why && time.Since(t.at) < eventLasts {
		return nil
	}
	o := t.object
	sum := sha256.Sum256([]byte(why + "\x00" + string(o.GetUID())))
	name := strings.TrimRight(o.GetName()[:min(len(o.GetName()), 200)], "-.") + ".edict-" + hex.EncodeToString(sum[:8])
	now := metav1.NowMicro()
	reason := "NotExpressed"
	if t.wider() {
		reason = "Held"
	}
	_, err := w.opt.Kubernetes.EventsV1().Events(o.GetNamespace()).Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: name},
		EventTime:           now,
		ReportingController: fieldManager, ReportingInstance: w.opt.Name,
		Action: "Translate", Reason: reason, Type: corev1.EventTypeWarning, Note: why,
		Regarding: corev1.ObjectReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	t.shown, t.at = why, time.Now()
	return nil
}

// eventLasts is how long an Event is taken to be there. The API server removes it after an
// hour, by default, and what it says goes on.
const eventLasts = 30 * time.Minute

const fieldManager = "edict-controller"

// Conditions that are written to the status of policies of the cluster.
const (
	accepted = "Accepted" // the plane has it, with what it says of what it has not
	realized = "Realized" // every node that it is for has applied it
)

// tellStatus writes the conditions of a policy of the cluster where they changed.
func (w *policyWriter) tellStatus(ctx context.Context, t *reported) error {
	conditions, err := w.conditions(ctx, t)
	if err != nil {
		return err
	}
	said := fmt.Sprint(t.object.GetUID(), conditions)
	if t.shown == said {
		return nil
	}
	kind, ok := w.view.resource(t.object)
	if !ok {
		return nil
	}
	o, there := w.view.current(t.object)
	if !there {
		return nil
	}
	o = o.DeepCopy()
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	have := make([]metav1.Condition, 0, len(list))
	for _, x := range list {
		var c metav1.Condition
		if m, ok := x.(map[string]any); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(m, &c) == nil {
			have = append(have, c)
		}
	}
	changed := false
	for _, c := range conditions {
		changed = meta.SetStatusCondition(&have, c) || changed
	}
	if changed {
		list = list[:0]
		for _, c := range have {
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
			if err != nil {
				return err
			}
			list = append(list, m)
		}
		if err := unstructured.SetNestedSlice(o.Object, list, "status", "conditions"); err != nil {
			return err
		}
		if _, err := w.opt.Dynamic.Resource(kind).UpdateStatus(ctx, o, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
			return err
		}
	}
	t.shown = said
	return nil
}

// conditions are what is so now.
func (w *policyWriter) conditions(ctx context.Context, t *reported) ([]metav1.Condition, error) {
	generation := t.object.GetGeneration()
	yes := metav1.Condition{Type: accepted, Status: metav1.ConditionTrue, Reason: "Accepted", Message: "all of it is in the plane", ObservedGeneration: generation}
	switch {
	case t.wider():
		yes.Status, yes.Reason, yes.Message = metav1.ConditionFalse, "Held", "it would let more through than it says; what the plane has of it from before stays:\n"+t.reasons()
	case !w.has(t):
		yes.Status, yes.Reason, yes.Message = metav1.ConditionFalse, "Pending", "the plane does not have it as it is now; the controller's log says why if this lasts"
	case len(t.items) > 0:
		yes.Reason, yes.Message = "NotExpressed", "in the plane without this:\n"+t.reasons()
	}
	done, all, err := w.applied(ctx, t.slugs)
	if err != nil {
		return nil, err
	}
	inForce := metav1.Condition{
		Type: realized, Status: metav1.ConditionFalse, Reason: "Pending", ObservedGeneration: generation,
		Message: fmt.Sprintf("%d of %d nodes applied it", done, all),
	}
	if done == all && yes.Status == metav1.ConditionTrue {
		inForce.Status, inForce.Reason = metav1.ConditionTrue, "Realized"
	}
	return []metav1.Condition{yes, inForce}, nil
}

// has reports whether the plane has all policies of an object as they are to be, and none
// that the object had before.
func (w *policyWriter) has(t *reported) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, slug := range t.slugs {
		if is := w.plane[slug]; is.id == uuid.Nil || is.draft != w.wanted[slug] {
			return false
		}
	}
	o := t.object
	return !slices.ContainsFunc(translate.Slugs(o.GetKind(), o.GetNamespace(), o.GetName()), func(slug string) bool {
		return w.wanted[slug] == "" && w.plane[slug].id != uuid.Nil
	})
}

// applied are how many of how many nodes have applied the policy of these that is least
// far.
func (w *policyWriter) applied(ctx context.Context, slugs []string) (done, all int, err error) {
	for _, slug := range slugs {
		w.mu.Lock()
		has, there := w.plane[slug]
		w.mu.Unlock()
		if !there {
			continue
		}
		var r resource.Rollout
		err := w.opt.paced(ctx, func() (err error) {
			r, err = w.opt.Policies.Rollout(ctx, w.opt.Project, has.id, 1)
			return err
		})
		if err != nil {
			return 0, 0, err
		}
		if behind := r.Desired - r.Applied; behind > all-done || behind == all-done && r.Desired > all {
			done, all = r.Applied, r.Desired
		}
	}
	return done, all, nil
}
