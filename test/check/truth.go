package check

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/edictdev/edict/test/oracle"
)

// truth is what the log says, moment by moment, for the nodes and versions that
// a run speaks of.
type truth struct {
	at   map[uint64]map[string]map[string]word // version → node → policy
	head oracle.Plane
}

// word is a row as it must be told: what the node contract can express of it,
// and how many rules that leaves out.
type word struct {
	fingerprint string
	omitted     int
	row         string // fingerprint of the row itself, as a pull shows it
}

// noWord is what is told of a row that is not there.
var noWord = word{fingerprint: oracle.EmptyFingerprint}

// tell folds the log. Only the versions wanted are kept.
func tell(log []Event, nodes []string, versions map[uint64]bool) (*truth, error) {
	t := &truth{at: map[uint64]map[string]map[string]word{}}
	seen := map[string]bool{}
	for _, e := range log {
		var id struct {
			ID string `json:"id"`
		}
		if !e.Rejected {
			if err := json.Unmarshal(e.Body, &id); err != nil {
				return nil, fmt.Errorf("event %d: %w", e.Seq, err)
			}
		}
		if !e.Rejected && !seen[id.ID] { // the exact event again is a duplicate
			seen[id.ID] = true
			if err := t.head.Apply(e.Body); err != nil {
				return nil, fmt.Errorf("event %d: %w", e.Seq, err)
			}
		}
		if versions[e.Seq] {
			t.at[e.Seq] = t.rows(nodes)
		}
	}
	return t, nil
}

// rows are the words about the nodes' rows now.
func (t *truth) rows(nodes []string) map[string]map[string]word {
	all := map[string]map[string]word{}
	for _, n := range nodes {
		all[n] = map[string]word{}
		for _, r := range t.head.Rows(n) {
			all[n][r.Policy] = wordOf(r)
		}
	}
	return all
}

func wordOf(r oracle.Row) word { return word{oracle.Fingerprint(r.Said), r.Omitted, r.Fingerprint} }

// word is what must be told of a row at a version; known is false for a version
// that is no event's.
func (t *truth) word(f Frame) (w word, known bool) {
	rows, known := t.at[f.Version]
	w, there := rows[f.Node][f.Policy]
	if !there {
		w = noWord
	}
	return w, known
}

// tells reports whether a message says the word.
func (f Frame) tells(w word) bool { return f.Fingerprint == w.fingerprint && f.Omitted == w.omitted }

// spoken lists the nodes and versions of a run.
func (r *Run) spoken() (nodes []string, versions map[uint64]bool) {
	names, versions := map[string]bool{}, map[uint64]bool{}
	note := func(f Frame) {
		if !f.Pull {
			names[f.Node], versions[f.Version] = true, true
		}
	}
	for _, f := range r.Announced {
		note(f)
	}
	for _, q := range r.Quiet {
		versions[q.Log] = true
	}
	for _, w := range r.Watchers {
		names[w.Node] = true
		for _, s := range w.Sessions {
			for _, f := range s.Frames {
				note(f)
			}
		}
	}
	for n := range names {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	return nodes, versions
}
