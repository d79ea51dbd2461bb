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
	at   map[uint64]map[string]map[string]string // version → node → policy → fingerprint
	head oracle.Plane
}

// tell folds the log. Only the versions wanted are kept.
func tell(log []Event, nodes []string, versions map[uint64]bool) (*truth, error) {
	t := &truth{at: map[uint64]map[string]map[string]string{}}
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

// rows are the fingerprints of the nodes' rows now.
func (t *truth) rows(nodes []string) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, n := range nodes {
		all[n] = map[string]string{}
		for _, r := range t.head.Rows(n) {
			all[n][r.Policy] = r.Fingerprint
		}
	}
	return all
}

// fingerprint is what a row was at a version, the empty one where there was
// none; known is false for a version that is no event's.
func (t *truth) fingerprint(f Frame) (fp string, known bool) {
	rows, known := t.at[f.Version]
	if fp = rows[f.Node][f.Policy]; fp == "" {
		fp = oracle.EmptyFingerprint
	}
	return fp, known
}

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
