package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edictdev/edict/test/oracle"
)

// Rule is one thing that must hold; each belongs to a promise.
type Rule string

// The rules.
const (
	Readable      Rule = "readable"      // 2: every frame reads, verifies, and is what its id says
	Ordered       Rule = "ordered"       // 2: sequences rise, above what was resumed from
	Unique        Rule = "unique"        // 2: no message twice
	Rising        Rule = "rising"        // 2: per policy, versions rise
	Own           Rule = "own"           // 3: nothing of another node
	Complete      Rule = "complete"      // 3: no gap but what a newer message replaced
	Word          Rule = "word"          // 3: a word instead of silence
	Held          Rule = "held"          // 3: in the end a node holds what the facts say
	Gated         Rule = "gated"         // 1: nothing is told before its sender could answer for it
	Hashed        Rule = "hashed"        // 4: a fingerprint is that of its rules
	True          Rule = "true"          // 4: what is told of a version was so at that version
	Whole         Rule = "whole"         // 4: a fence speaks for what its batch stored
	Fenced        Rule = "fenced"        // 2: of a partition, epochs do not fall and change with their owner
	Converged     Rule = "converged"     // 4: the last message of each row is what the facts say
	Stated        Rule = "stated"        // 4: GET state is what the facts say, to the byte
	Deterministic Rule = "deterministic" // 5: one (node, policy, version), one payload; equal digests
)

// promises says to which promise of design section 12 a rule belongs.
var promises = map[Rule]int{
	Readable: 2, Ordered: 2, Unique: 2, Rising: 2, Fenced: 2, Own: 3, Complete: 3, Word: 3, Held: 3,
	Gated: 1, Hashed: 4, True: 4, Whole: 4, Converged: 4, Stated: 4, Deterministic: 5,
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
	truth    *truth
	broken   []Violation
	stored   map[string][]Frame // of Announced, by node, ascending
	newest   map[string]uint64  // node/policy → the last sequence stored
	payloads map[string]string  // node/policy/version → fingerprint and rules
	resigned map[string]bool    // likewise: another key said it again
}

// Judge says what a run broke. The error is of a log that cannot be read.
func Judge(r *Run) ([]Violation, error) {
	nodes, versions := r.spoken()
	t, err := tell(r.Log, nodes, versions)
	if err != nil {
		return nil, err
	}
	j := &judgement{Run: r, truth: t, stored: map[string][]Frame{}, newest: map[string]uint64{}, payloads: map[string]string{}, resigned: map[string]bool{}}
	j.stream()
	j.fences()
	for _, w := range r.Watchers {
		j.watcher(w)
	}
	j.end()
	return j.broken, nil
}

func (j *judgement) breaks(rule Rule, format string, args ...any) {
	j.broken = append(j.broken, Violation{rule, fmt.Sprintf(format, args...)})
}

func row(f Frame) string { return f.Node + "/" + f.Policy }

func versionOf(f Frame) string { return fmt.Sprintf("%s/%d", row(f), f.Version) }

// message holds what is true of a message wherever it is met.
func (j *judgement) message(where string, f Frame) {
	if got := oracle.Fingerprint(f.Rules); got != f.Fingerprint {
		j.breaks(Hashed, "%s: %s version %d: the rules hash to %s, not to %s", where, row(f), f.Version, got, f.Fingerprint)
	}
	want, known := j.truth.word(f)
	switch {
	case !known:
		j.breaks(True, "%s: %s: version %d is no event's", where, row(f), f.Version)
	case !f.tells(want):
		j.breaks(True, "%s: %s version %d: told %s and %d left out, was %s and %d", where, row(f), f.Version, f.Fingerprint, f.Omitted, want.fingerprint, want.omitted)
	}
	key := versionOf(f)
	body := fmt.Sprint(f.Fingerprint, f.Rules, f.Omitted)
	if was, met := j.payloads[key]; met && was != body {
		j.breaks(Deterministic, "%s: %s was told otherwise elsewhere", where, key)
	}
	j.payloads[key] = body
}

// stream judges what was stored.
func (j *judgement) stream() {
	all := slices.Clone(j.Announced)
	slices.SortStableFunc(all, func(a, b Frame) int { return int(a.Seq) - int(b.Seq) })
	all = slices.CompactFunc(all, func(a, b Frame) bool { return a.Seq == b.Seq })
	last := map[string]Frame{}
	for _, f := range all {
		j.message("node stream", f)
		if was, told := last[row(f)]; told && f.again(was) {
			j.resigned[versionOf(f)] = true
		} else if told && f.Version <= was.Version {
			rule := Rising
			if f.Version == was.Version {
				rule = Unique
			}
			j.breaks(rule, "node stream: %s version %d at %d, after version %d at %d", row(f), f.Version, f.Seq, was.Version, was.Seq)
		}
		last[row(f)] = f
		j.stored[f.Node] = append(j.stored[f.Node], f)
		j.newest[row(f)] = f.Seq
	}
	for _, q := range j.Quiet {
		j.converged(q, all)
	}
}

// converged holds the last message of each row at a quiet moment against the
// facts of that moment.
func (j *judgement) converged(q Quiet, all []Frame) {
	last := map[string]map[string]Frame{}
	for _, f := range all {
		if f.Seq <= q.Stream {
			if last[f.Node] == nil {
				last[f.Node] = map[string]Frame{}
			}
			last[f.Node][f.Policy] = f
		}
	}
	for node, want := range j.truth.at[q.Log] {
		for p, f := range last[node] {
			w, there := want[p]
			if !there {
				w = noWord
			}
			if !f.tells(w) {
				j.breaks(Converged, "%s at %d: the last word is %s of version %d, the facts say %q", row(f), q.Log, f.Fingerprint, f.Version, w.fingerprint)
			}
		}
		for p := range want {
			if _, told := last[node][p]; !told {
				j.breaks(Converged, "%s/%s at %d: never announced", node, p, q.Log)
			}
		}
	}
}

// fences judges owners. Fences that were not heard are no fault.
func (j *judgement) fences() {
	last := map[int]Fence{}
	for _, f := range j.Fences {
		was, met := last[f.Partition]
		last[f.Partition] = f
		if met && (f.Epoch < was.Epoch || f.Epoch == was.Epoch && f.Owner != was.Owner) {
			j.breaks(Fenced, "partition %d: epoch %d of %s at %d, after epoch %d of %s", f.Partition, f.Epoch, f.Owner, f.Seq, was.Epoch, was.Owner)
		}
		if j.Whole && f.Mode == "follow" && !f.After.End && f.After.Seq > 0 && (!met || was.After != f.After) {
			j.whole(f)
		}
	}
}

// whole looks for the announcement that a fence names as its batch's last.
func (j *judgement) whole(f Fence) {
	for _, m := range j.stored[f.After.Node] {
		if m.Policy == f.After.Policy && m.Version == f.After.Seq {
			return
		}
	}
	j.breaks(Whole, "partition %d: the fence at %d says %s/%s version %d is told, and it is not", f.Partition, f.Seq, f.After.Node, f.After.Policy, f.After.Seq)
}

// end judges states and digests.
func (j *judgement) end() {
	for node, got := range j.States {
		want, known := j.truth.head.State(node)
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
