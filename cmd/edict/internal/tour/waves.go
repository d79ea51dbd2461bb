package tour

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/policy"
)

// waves is the story of two rollouts: one that canaries refuse, and one that goes to
// all machines. It tells and checks as the tour does.
type waves struct {
	*tour
	machines []*machine
	policy   uuid.UUID
	mu       sync.Mutex
	changed  chan struct{}
}

// The waves, and which machines each has. The last one is not named.
var (
	waveLabels = []string{"canary=true", "region=eu"}
	waveNodes  = [][]policy.NodeID{{"shop-1", "shop-2"}, {"shop-3", "shop-4"}, {"shop-5", "shop-6"}}
)

// Waves tells how a bad revision comes back by itself, and how a good one reaches all
// machines, on a plane that it starts. An error says what differed from what was
// claimed.
func Waves(ctx context.Context, opt Options) (err error) {
	dir, err := os.MkdirTemp("", "edict-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := &waves{tour: &tour{opt: opt, dir: dir, began: time.Now()}, changed: make(chan struct{})}
	w.serve = newServe(opt.Binary, dir)
	opt.say("", "A policy goes to six machines in waves: two canaries, two of the region eu, and the rest.")
	fmt.Fprintln(opt.Out)
	if _, err := w.serve.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.serve.stop()) }()
	if w.client, err = client.New("http://"+w.serve.http, client.Options{Principal: "demo"}); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	all, cancel := context.WithCancel(gctx)
	defer cancel()
	g.Go(func() error {
		defer cancel()
		return w.story(all, g)
	})
	return g.Wait()
}

func (w *waves) story(ctx context.Context, g *errgroup.Group) error {
	if err := w.begin(ctx, g); err != nil {
		return err
	}
	if err := w.fail(ctx); err != nil {
		return err
	}
	if err := w.succeed(ctx); err != nil {
		return err
	}
	fmt.Fprintf(w.opt.Out, "\nEverything was as claimed. The story took %s.\n", ms(time.Since(w.began)))
	return w.opt.stay(ctx, w.client, "edict policy rollout shop", "edict audit")
}

// begin registers the machines, and publishes what all of them apply.
func (w *waves) begin(ctx context.Context, g *errgroup.Group) error {
	labels := []map[string]string{{"role": "shop", "canary": "true"}, {"role": "shop", "region": "eu"}, {"role": "shop"}}
	for i, ids := range waveNodes {
		for _, id := range ids {
			if _, _, err := w.client.Nodes.Put(ctx, w.opt.Project, string(id), resource.Facts{Labels: labels[i]}); err != nil {
				return err
			}
			m := &machine{id: id}
			w.machines = append(w.machines, m)
			m.run(ctx, g, w.client.Server(), w.note)
		}
	}
	if err := w.await(ctx, "it does not follow", func(m *machine) bool { return m.follows }); err != nil {
		return err
	}
	p, err := w.client.Policies.Create(ctx, w.opt.Project, resource.Draft{Slug: "shop", Selector: shop, Rules: shopRules(8080, 8080)})
	if err != nil {
		return err
	}
	w.policy = p.ID
	if err := w.all(ctx, p.HeadRevisionID); err != nil {
		return err
	}
	w.tell("Six machines follow the plane, and report that they applied the policy \"shop\".")
	return nil
}

var shop = resource.Selector{Source: "role=shop", Destination: "role=shop"}

func shopRules(from, to uint16) []resource.Rule {
	return []resource.Rule{{
		Action: "allow", Protocol: "tcp", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.1.0.0/16",
		Ports: &resource.Ports{From: from, To: to},
	}}
}

// promote stages rules, and has them go from wave to wave.
func (w *waves) promote(ctx context.Context, rules []resource.Rule) (uuid.UUID, error) {
	x, err := w.client.Policies.Stage(ctx, w.opt.Project, w.policy, resource.Preview{Selector: shop, Rules: rules})
	if err != nil {
		return uuid.Nil, err
	}
	_, err = w.client.Policies.Promote(ctx, w.opt.Project, w.policy, resource.Promotion{Waves: waveLabels, OnRefusal: policy.OnRefusalAbort})
	return x.RevisionID, err
}

// fail promotes what the canaries refuse.
func (w *waves) fail(ctx context.Context) error {
	before, err := w.client.Policies.Get(ctx, w.opt.Project, w.policy)
	if err != nil {
		return err
	}
	began := time.Now()
	bad, err := w.promote(ctx, shopRules(1, 65535))
	if err != nil {
		return err
	}
	w.tell("A revision that opens every port was staged and promoted, with --on-refusal abort:")
	w.command("edict policy promote shop --wave " + strings.Join(waveLabels, " --wave ") + " --then all --on-refusal abort")
	x, err := w.until(ctx, "aborted")
	if err != nil {
		return err
	}
	if x.Opened != 1 || !strings.Contains(x.Reason, unable) {
		return fmt.Errorf("%w: wave %d was open, and the reason is %q", errDiffers, x.Opened, x.Reason)
	}
	if err := w.all(ctx, before.HeadRevisionID); err != nil {
		return err
	}
	w.tell("The canaries refused it, and %s later the plane went back by itself, and says why:", ms(time.Since(began)))
	w.more("%s", x.Reason)
	got := 0
	for _, m := range w.machines {
		if !m.first(bad).IsZero() {
			got++
		}
	}
	w.tell("%d of %d machines were ever sent it, and have what they had before again.", got, len(w.machines))
	return check("machines that were sent the bad revision", len(waveNodes[0]), got)
}

// succeed promotes what all machines apply.
func (w *waves) succeed(ctx context.Context) error {
	began := time.Now()
	good, err := w.promote(ctx, shopRules(8443, 8443))
	if err != nil {
		return err
	}
	if _, err := w.until(ctx, "completed"); err != nil {
		return err
	}
	if err := w.all(ctx, good); err != nil {
		return err
	}
	w.tell("A good revision was promoted in the same way. Nobody opened a wave by hand:")
	var last time.Time
	for i, ids := range waveNodes {
		var first time.Time
		for _, m := range w.machines[2*i : 2*i+len(ids)] {
			at := m.first(good)
			if at.Before(last) {
				return fmt.Errorf("%w: %s was sent it before the wave ahead of it had it", errDiffers, m.id)
			}
			if at.After(first) {
				first = at
			}
		}
		last = first
		w.more("%-12s %s and %s after %s", append(waveLabels, "all others")[i], ids[0], ids[1], ms(last.Sub(began)))
	}
	return nil
}

// note changes what is known of a machine, and wakes who waits.
func (w *waves) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// all waits until each machine was sent a revision, as the last one.
func (w *waves) all(ctx context.Context, revision uuid.UUID) error {
	return w.await(ctx, "it was not sent revision "+revision.String(), func(m *machine) bool { return m.has() == revision })
}

// await waits until something holds of each machine; otherwise says what does not.
func (w *waves) await(ctx context.Context, otherwise string, holds func(*machine) bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		w.mu.Lock()
		missing, changed := "", w.changed
		for _, m := range w.machines {
			if !holds(m) {
				missing = string(m.id)
			}
		}
		w.mu.Unlock()
		if missing == "" {
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			return fmt.Errorf("%w: %s: %s", errDiffers, missing, otherwise)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// until waits for the phase of the rollout.
func (w *waves) until(ctx context.Context, phase string) (x resource.Waves, err error) {
	const pause = 20 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); {
		r, err := w.client.Policies.Rollout(ctx, w.opt.Project, w.policy, 1)
		if err != nil {
			return x, err
		}
		if x = *r.Waves; x.Phase == phase {
			return x, nil
		}
		if x.Phase != "progressing" {
			break
		}
		if err := backoff.Sleep(ctx, pause); err != nil {
			return x, err
		}
	}
	return x, fmt.Errorf("%w: the rollout is %s, wave %d, and not %s", errDiffers, x.Phase, x.Opened, phase)
}
