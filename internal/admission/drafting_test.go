package admission

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWhoCompilesWaitsForNobodyElse has one author whose code keeps the compiler, and
// another.
func TestWhoCompilesWaitsForNobodyElse(t *testing.T) {
	d := &drafting{places: make(chan struct{}, 2), authors: owners{share: share(2)}, patient: time.Minute}
	done, err := d.begin(t.Context(), "eve")
	require.NoError(t, err)
	left, cancel := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() {
		_, err := d.begin(left, "eve")
		waits <- err
	}()
	other, err := d.begin(t.Context(), "ana")
	require.NoError(t, err, "half of the places are for others")
	other()
	cancel()
	require.ErrorIs(t, <-waits, context.Canceled)
	d.patient = 1
	_, err = d.begin(t.Context(), "eve")
	require.ErrorIs(t, err, ErrBusy)
	done()
	require.Empty(t, d.places)
	require.Empty(t, d.authors.of, "nothing is kept of who waited")
}

// TestDraftsAreCompiledInALane has no place for authors: the log's policies are compiled
// all the same.
func TestDraftsAreCompiledInALane(t *testing.T) {
	r := NewRegistry(nil, RegistryOptions{})
	r.drafting = &drafting{authors: owners{share: 1}, patient: 1}
	p := rego("a", User, 1, `{}`)
	_, err := r.Draft(t.Context(), "eve", p)
	require.ErrorIs(t, err, ErrBusy)
	_, err = r.Compile(t.Context(), p)
	require.NoError(t, err)
	_, err = r.Draft(t.Context(), "eve", p)
	require.NoError(t, err, "it is compiled already")

	r.drafting = newDrafting()
	for _, p := range []Policy{rego("b", User, 1, `{}`), {ID: "c"}, {ID: "d", Level: User, Rego: "package"}} {
		_, _ = r.Draft(t.Context(), "eve", p)
	}
	require.Eventually(t, func() bool { return len(r.drafting.places) == 0 }, time.Minute, time.Millisecond, "each gave its place back")
}
