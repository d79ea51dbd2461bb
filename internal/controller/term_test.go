package controller

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNobodyLeadsAfterTheTerm: the Lease may be lost before whoever leads has begun, or
// while he leads.
func TestNobodyLeadsAfterTheTerm(t *testing.T) {
	var late term
	require.NoError(t, late.end())
	late.serve(func() error { panic("it is over") })

	var held term
	begun, leave := make(chan struct{}), make(chan struct{})
	go held.serve(func() error {
		close(begun)
		<-leave
		return errors.New("the watch is not to be had")
	})
	<-begun
	ended := make(chan error)
	go func() { ended <- held.end() }()
	close(leave)
	require.ErrorContains(t, <-ended, "the watch", "it ends after he did")
}
