package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

func TestAnEventIsShownWithWhatItChangedInShort(t *testing.T) {
	none, seven, parent := 0, 7, uuid.New()
	for want, e := range map[string]resource.LogEvent{
		"":                     {},
		"z=1, sent to 0 nodes": {Nodes: &none, Change: &resource.EventChange{Node: &resource.NodeChange{After: map[string]string{"z": "1"}}}},
		"+1 ~2 rules, other nodes, sent to 7 nodes": {Nodes: &seven, Change: &resource.EventChange{Policy: &resource.HeadChange{
			ParentRevisionID: &parent, Selectors: &resource.Selectors{Before: &resource.Selector{}},
			Rules: resource.Diff{Added: make([]resource.Rule, 1), Modified: make([]resource.Modified, 2)},
		}}},
		"+1 rule": {Change: &resource.EventChange{Policy: &resource.HeadChange{
			ParentRevisionID: &parent, Rules: resource.Diff{Added: make([]resource.Rule, 1)},
		}}},
		"new, role=web": {Change: &resource.EventChange{Node: &resource.NodeChange{Created: true, After: map[string]string{"role": "web"}}}},
		"role=db (was web), zone=a, -env": {Change: &resource.EventChange{Node: &resource.NodeChange{
			Before: map[string]string{"role": "web", "env": "prod", "same": "x"}, After: map[string]string{"role": "db", "zone": "a", "same": "x"},
		}}},
		"sent to 7 nodes": {Nodes: &seven, Change: &resource.EventChange{Node: &resource.NodeChange{Removed: true, Before: map[string]string{"role": "web"}}}},
	} {
		require.Equal(t, want, changeText(e))
	}
}

// What an event of a rollout says of itself stands beside how many nodes were sent something.
func TestAnEventOfARolloutIsShownWithWhomItWasSentTo(t *testing.T) {
	two, wave := 2, resource.LogEvent{AuditEntry: resource.AuditEntry{Detail: "wave 2"}}
	require.Equal(t, "wave 2", changeText(wave))
	wave.Nodes = &two
	require.Equal(t, "wave 2, sent to 2 nodes", changeText(wave))
}
