package api

import (
	"errors"
	"slices"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// dryRunParam is of every write. What a dry run would change is 204, and what would
// change nothing is answered as ever; who writes admission policies is shown them.
var dryRunParam = queryFlag("dry_run", "Check all, write nothing: 204 if it would be written.")

// unwritten reports whether a dry run of the route may be 204. Batches answer what would
// become of each line, and routes of admission policies what would be there.
func (r Route) unwritten() bool {
	return slices.Contains(r.queryNames(), dryRunParam.Name) && r.BodyType != mediaNDJSON && !(r.authored() && r.Body != nil)
}

// errDryRun ends a dry run whose event the fold would apply now.
var errDryRun = errors.New("a dry run writes nothing")

// readDryRun reads whether the request is a dry run. A route that does not know them has
// refused it.
func readDryRun(c *call) (err error) {
	if slices.Contains(c.route.queryNames(), dryRunParam.Name) {
		c.dry, err = c.queryFlag(dryRunParam.Name)
	}
	return err
}

// dryRun is what a write of e would fail with now, and errDryRun if with nothing.
func (w *writes) dryRun(c *call, e policy.Event) error {
	return w.reads.check(c, func(v *projector.View) error {
		if r := v.WouldAccept(e, w.clock()).Rejection; r != nil {
			return refused(r)
		}
		return errDryRun
	})
}

// judge counts what would become of a chunk. Each line is judged by what is there now,
// and not by the lines before it.
func (b *batch) judge(k *chunk) error {
	if err := b.writes.gate.check(); err != nil {
		return err
	}
	for _, w := range k.writes {
		err := b.writes.quota.check(b.c, w.event)
		if err == nil {
			b.model.Read(func(v *projector.View) {
				if w.refused = v.WouldAccept(w.event, b.writes.clock()).Rejection; w.refused == nil {
					b.result.Applied++
				}
			})
		}
		var p *resource.Problem
		switch {
		case errors.As(err, &p):
			b.reject(w.line, w.node, p.Code, p.Detail)
		case err != nil:
			return err
		case w.refused != nil:
			b.reject(w.line, w.node, w.refused.Code, w.refused.Detail)
		}
	}
	k.events = nil
	return nil
}
