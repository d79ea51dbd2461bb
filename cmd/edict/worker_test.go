package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

// Two workers may have one name: what each publishes is told by its owner. An older plane
// says the name alone.
func TestPartitionsAreCountedByTheOwnerOfTheirWorker(t *testing.T) {
	s := resource.Status{
		Workers:    []resource.Worker{{Name: "w2", Owner: "A"}, {Name: "w2", Owner: "B"}, {Name: "w3", Owner: "C"}},
		Partitions: []resource.Partition{{ID: 0, Publisher: "w2", Owner: "A"}, {ID: 1, Publisher: "w2", Owner: "B"}, {ID: 2, Publisher: "w2", Owner: "B"}, {ID: 3}},
	}
	counts := func() (n []int) {
		for _, w := range workersIn(s) {
			n = append(n, len(w.Partitions))
		}
		return n
	}
	require.Equal(t, []int{1, 2, 0}, counts())
	for name, want := range map[string]int{"B": 1, "w3": 2} {
		at, err := workerNamed(workersIn(s), name)
		require.NoError(t, err)
		require.Equal(t, want, at)
	}
	_, err := workerNamed(workersIn(s), "w2")
	require.ErrorContains(t, err, "A, B")

	var out strings.Builder
	workerTable(&out, s)
	require.Regexp(t, `\nw2 +0 +0 +1 .*\nw2 +0 +0 +2 .*\nw3 +0 +0 +0 `, out.String())
	out.Reset()
	partitionTable(&out, s.Partitions)
	require.Regexp(t, `\n0 +w2 +0 *\n1-2 +w2 +0 *\n3 +nobody `, out.String())

	s.Workers = s.Workers[1:]
	for i := range s.Partitions {
		s.Partitions[i].Owner = ""
	}
	require.Equal(t, []int{3, 0}, counts())
}
