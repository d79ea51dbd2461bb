package api

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

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

// dryRun is what a write of e would fail with now, and errDryRun if with nothing. One that
// was made before under its key would not be made again, whatever it meets.
func (w *writes) dryRun(c *call, e policy.Event) error {
	var made projector.Verdict
	err := w.reads.check(c, func(v *projector.View) error {
		made = v.WouldAccept(e, w.clock())
		return nil
	})
	switch {
	case err != nil:
		return err
	case made.Rejection != nil:
		return refused(made.Rejection)
	case made.Duplicate:
		return cmp.Or(w.sameBody(c.r.Context(), e, c.asked, 0), errDryRun)
	}
	return errDryRun
}

// maxRehearsed bounds the lines that a dry run of a batch keeps in mind.
const maxRehearsed = 1 << 18

// rehearsal is what a dry run of a batch knows of the lines before.
type rehearsal struct {
	*projector.Rehearsal
	lines int
	// holds is what nodes would have been given by lines that are not pending any more.
	holds map[policy.NodeID][sha256.Size]byte
}

func newRehearsal(project uuid.UUID) *rehearsal {
	return &rehearsal{projector.NewRehearsal(project), 0, map[policy.NodeID][sha256.Size]byte{}}
}

// judge counts what would become of a chunk: each line meets what the lines before it
// would have left, as if the fold had taken them at once.
func (b *batch) judge(k *chunk) error {
	if err := b.writes.gate.check(); err != nil {
		return err
	}
	if full, err := b.full(k, b.rehearsed.Rehearsal); full || err != nil {
		return err
	}
	if b.rehearsed.lines += len(k.writes); b.rehearsed.lines > maxRehearsed {
		return problem(http.StatusRequestEntityTooLarge, CodeBodyTooLarge,
			"a dry run takes at most %d lines that change something: send fewer at once", maxRehearsed)
	}
	for i, w := range k.writes {
		var made projector.Verdict
		b.model.Read(func(v *projector.View) {
			made = b.rehearsed.Next(v, w.event, k.events[i].Stored(), b.writes.clock())
		})
		switch {
		case made.Rejection != nil:
			w.refused = made.Rejection
			b.reject(w.line, w.node, w.refused.Code, w.refused.Detail)
		case made.Duplicate:
			if err := b.repeated(b.c.r.Context(), w, 0); err != nil {
				return err
			}
		default:
			b.result.Applied++
			b.rehearsed.holds[w.node] = sumOf(w.facts)
		}
	}
	k.events = nil
	return nil
}

// rehearsedFacts reports whether lines before gave a node facts, and whether these are
// they.
func (b *batch) rehearsedFacts(id policy.NodeID, f policy.Facts) (same, given bool) {
	if b.rehearsed == nil {
		return false, false
	}
	held, given := b.rehearsed.holds[id]
	return given && held == sumOf(f), given
}

// sumOf tells the facts of a node apart.
func sumOf(f policy.Facts) [sha256.Size]byte {
	key := append(f.Labels.AppendKey(nil), 0)
	for _, a := range f.Addresses {
		key = append(a.AppendTo(key), ',')
	}
	return sha256.Sum256(key)
}
