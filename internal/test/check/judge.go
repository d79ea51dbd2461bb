package check

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/watch"
	"github.com/edictdev/edict/policy"
)

// Rule is one thing that must hold; each belongs to a promise.
type Rule string

// The rules.
const (
	Durable       Rule = "durable"       // 1: what was acknowledged is in the log, where it was said to be
	Readable      Rule = "readable"      // 2: every frame reads, verifies, and is what its headers say
	Ordered       Rule = "ordered"       // 2: ids rise, above what was resumed from
	Unique        Rule = "unique"        // 2: no id twice
	Own           Rule = "own"           // 3: nothing of another node
	Complete      Rule = "complete"      // 3: no gap but what something newer of the same thing replaced
	Notified      Rule = "notified"      // 3: a message to pull instead of silence
	Held          Rule = "held"          // 4: in the end a client holds what the facts say
	Hashed        Rule = "hashed"        // 4: a fingerprint is that of its rules or document
	True          Rule = "true"          // 4: what is told under an id was so at its event
	Stated        Rule = "stated"        // 4: GET state is what the facts say, to the byte, unless its block is resolved
	Named         Rule = "named"         // 5: an id names an event that made it so, and what it is about
	Headed        Rule = "headed"        // 5: the revision is the one that was head at the id
	Deterministic Rule = "deterministic" // 5: one id, one content; equal digests
	Judged        Rule = "judged"        // 6: what the fold said of an event is what it deserves
)

// promises says to which promise of docs/design.md#what-we-promise a rule belongs.
var promises = map[Rule]int{
	Durable: 1, Readable: 2, Ordered: 2, Unique: 2, Own: 3, Complete: 3, Notified: 3,
	Held: 4, Hashed: 4, True: 4, Stated: 4, Named: 5, Headed: 5, Deterministic: 5, Judged: 6,
}

// Promise is the number of the promise the rule belongs to.
func (r Rule) Promise() int { return promises[r] }

// Violation is one rule broken once.
type Violation struct {
	Rule   Rule
	Detail string
}

// String names promise, rule and place.
func (v Violation) String() string {
	return fmt.Sprintf("promise %d, %s: %s", v.Rule.Promise(), v.Rule, v.Detail)
}

// Rules lists the rules broken, each once, in the order of their names.
func Rules(vs []Violation) []Rule {
	seen := map[Rule]bool{}
	for _, v := range vs {
		seen[v.Rule] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// judgement is one run on its way to a verdict.
type judgement struct {
	*Run
	truth  *oracle.History
	broken []Violation
	said   map[string][sha256.Size]byte // by node and id, the hash of what was said
}

// Judge says what a run broke. The error is of a log that cannot be read.
func Judge(r *Run) ([]Violation, error) {
	t, err := tell(r)
	if err != nil {
		return nil, err
	}
	j := &judgement{Run: r, truth: t, said: map[string][sha256.Size]byte{}}
	j.verdicts()
	j.broken = append(j.broken, r.Lost()...)
	for _, f := range r.Heard {
		j.message("on the subject", f)
	}
	for _, rec := range r.Records {
		j.record(rec)
	}
	j.end()
	return j.broken, nil
}

// tell folds the log for the nodes that the run speaks of.
func tell(r *Run) (*oracle.History, error) {
	names := map[string]bool{}
	for _, rec := range r.Records {
		names[rec.Node] = true
		for _, s := range rec.Sessions {
			for _, f := range s.Frames {
				names[f.Node] = true
			}
		}
	}
	for _, f := range r.Heard {
		names[f.Node] = true
	}
	for n := range r.States {
		names[n] = true
	}
	h := oracle.NewHistory(r.Base, slices.Sorted(maps.Keys(names))...)
	var court oracle.Court
	for _, e := range r.Log {
		code, judged := court.Judge(e.Subject, e.Body)
		if judged && code != "" || !judged && e.Rejected != "" {
			h.Skip(e.Seq)
		} else if err := h.Apply(e.Seq, e.Body); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (j *judgement) breaks(rule Rule, format string, args ...any) {
	j.broken = append(j.broken, Violation{rule, fmt.Sprintf(format, args...)})
}

// verdicts holds what the fold said of each event against what the court says.
func (j *judgement) verdicts() {
	var court oracle.Court
	for _, e := range j.Log {
		if want, judged := court.Judge(e.Subject, e.Body); judged && want != e.Rejected {
			j.breaks(Judged, "event %d on %s: the fold says %q, it deserves %q: %.300s", e.Seq, e.Subject, e.Rejected, want, e.Body)
		}
	}
}

// toLook reports whether a frame says to look, not what there is.
func toLook(f watch.Frame) bool { return f.Type == "node_state_updated" || f.Pull }

// resync reports whether a message says that what was missed is not known.
func resync(f watch.Frame) bool { return toLook(f) && f.Reason != "datapath" }

// Thing is what a message is about.
func Thing(f watch.Frame) oracle.Thing {
	return oracle.Thing{Policy: f.Policy, Kind: f.Kind, Name: f.Name}
}

func gone(f watch.Frame) bool {
	if f.Policy == "" {
		return f.Document == "" && f.Fingerprint == ""
	}
	return f.Rules == "[]" && f.Omitted == 0
}

// message holds what is true of a message wherever it is met.
func (j *judgement) message(where string, f watch.Frame) {
	if toLook(f) {
		j.table(where, f)
		return
	}
	if _, ours := f.ID.Seq(j.Base); !ours {
		return // of the log that was there before
	}
	j.once(where, f)
	body := f.Rules
	if f.Policy == "" {
		body = f.Document
	}
	if got := oracle.Fingerprint(body); !gone(f) && got != f.Fingerprint {
		j.breaks(Hashed, "%s: %s %s %d: it hashes to %s, not to %s", where, f.Node, Thing(f), f.ID, got, f.Fingerprint)
	}
	want, ok := j.truth.Tells(f.Node, f.ID)
	switch {
	case !ok || want.Thing != Thing(f):
		j.breaks(Named, "%s: %s hears of %s under %s, which is no id for it: it names %+v", where, f.Node, Thing(f), j.place(f.ID), want)
	case want.Leaves() == gone(f) || want.Leaves() && (want.Fingerprint != f.Fingerprint || want.Body != body || want.Omitted != f.Omitted):
		j.breaks(True, "%s: %s hears of %s at %s: %s and %d left out, was %s and %d (gone: %v)",
			where, f.Node, Thing(f), j.place(f.ID), f.Fingerprint, f.Omitted, want.Fingerprint, want.Omitted, want.Gone)
	case f.Policy != "" && f.Revision != "" && want.Revision != f.Revision:
		j.breaks(Headed, "%s: %s hears of %s at %s with revision %s, the head was %s", where, f.Node, Thing(f), j.place(f.ID), f.Revision, want.Revision)
	}
}

// once looks for two contents of one id.
func (j *judgement) once(where string, f watch.Frame) {
	key := fmt.Sprint(f.Node, " ", f.ID)
	says := sha256.Sum256(fmt.Append(nil, Thing(f), f.Revision, f.Fingerprint, f.Rules, f.Document, f.Omitted))
	if was, met := j.said[key]; met && was != says {
		j.breaks(Deterministic, "%s: %s was told otherwise elsewhere under %s", where, f.Node, j.place(f.ID))
	}
	j.said[key] = says
}

// table holds what is true of a message about a table: it is said at the end of an
// event that was there.
func (j *judgement) table(where string, f watch.Frame) {
	seq, ours := f.ID.Seq(j.Base)
	if resync(f) || !ours {
		return
	}
	if f.ID.Number() != policy.NumberTable || seq > j.truth.Head() {
		j.breaks(Named, "%s: %s hears of its table under %s", where, f.Node, j.place(f.ID))
	}
}

// place is an id as people read it.
func (j *judgement) place(id policy.EventID) string {
	if seq, ours := id.Seq(j.Base); ours {
		return fmt.Sprintf("%d.%d", seq, id.Number())
	}
	return fmt.Sprintf("id %d of an earlier log", id)
}

// end judges states and digests.
func (j *judgement) end() {
	for node, got := range j.States {
		want, known := j.truth.Plane().State(node)
		if known && strings.Contains(got, `,"resolved":true}`) && j.truth.Plane().MayConflict(node) {
			continue // other rules, that TestOnePolicyHasOneMeaning is the judge of
		}
		if !known || want != strings.TrimRight(got, "\n") {
			j.breaks(Stated, "state of %s is %.200s, the facts say %.200s", node, got, want)
		}
	}
	var first, whose string
	for _, worker := range slices.Sorted(maps.Keys(j.Digests)) {
		if first == "" {
			first, whose = j.Digests[worker], worker
		}
		if j.Digests[worker] != first {
			j.breaks(Deterministic, "%s holds %s, %s holds %s", worker, j.Digests[worker], whose, first)
		}
	}
}
