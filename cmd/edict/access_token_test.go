package main

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/policy"
)

// What a command printed is in the file, whatever other commands wrote at the same time.
func TestEveryTokenThatWasMadeIsInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.json")
	const commands = 16
	var all sync.WaitGroup
	for i := range commands {
		all.Go(func() {
			_, kept := access.NewToken(uuid.New(), time.Time{})
			err := tokenToFile(t.Context(), path, policy.PrincipalID(fmt.Sprintf("p%d", i%4)), tokenFlags{kind: "person"}, kept, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f, err := access.ReadFile(path)
	require.NoError(t, err)
	tokens := 0
	for _, e := range f {
		tokens += len(e.Principal.Tokens)
	}
	require.Equal(t, commands, tokens)

	// A principal stays what it is: who asks for another kind is told.
	_, token := access.NewToken(uuid.New(), time.Time{})
	other := tokenFlags{kind: "node"}
	require.NoError(t, tokenToFile(t.Context(), path, "p0", other, token, nil), "the flag's own default says nothing")
	other.kindGiven = true
	require.ErrorContains(t, tokenToFile(t.Context(), path, "p0", other, token, nil), "p0 is a person already")
	_, token = access.NewToken(uuid.New(), time.Time{})
	require.NoError(t, tokenToFile(t.Context(), path, "web-1", other, token, nil))
}

// Tokens that have expired make room for the next one; those that have not are kept.
func TestExpiredTokensMakeRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.json")
	add := func(expires time.Time) error {
		_, token := access.NewToken(uuid.New(), expires)
		return tokenToFile(t.Context(), path, "ci", tokenFlags{kind: "service"}, token, nil)
	}
	require.NoError(t, add(time.Time{}))
	require.NoError(t, add(time.Now().Add(time.Hour)))
	for range 2 * policy.MaxTokens {
		require.NoError(t, add(time.Now().Add(-time.Minute)))
	}
	f, err := access.ReadFile(path)
	require.NoError(t, err)
	good := 0
	for _, token := range f["ci"].Principal.Tokens {
		if !over(&token.Expires) {
			good++
		}
	}
	require.Equal(t, 2, good)

	// Of those that have not, only so many are taken: no plane reads a file with more.
	for range policy.MaxTokens - good {
		require.NoError(t, add(time.Time{}))
	}
	require.ErrorContains(t, add(time.Time{}), "as many as it may")
	_, err = access.ReadFile(path)
	require.NoError(t, err)
}
