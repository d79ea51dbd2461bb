package access

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newSessions(t *testing.T, secret string, now *time.Time) *Sessions {
	t.Helper()
	s, err := NewSessions([]byte(secret), func() time.Time { return *now })
	require.NoError(t, err)
	return s
}

func TestALinkOpensOneSessionWithinAMinute(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s := newSessions(t, "one", &now)
	code, until, err := s.Link(Credentials{Bearer: "edt_ana"}, time.Time{})
	require.NoError(t, err)
	require.Equal(t, now.Add(LinkLife), until)

	text, over, err := s.Open(code)
	require.NoError(t, err)
	require.Equal(t, now.Add(SessionLife), over)
	require.NotContains(t, text, "edt_ana")
	_, _, err = s.Open(code)
	require.ErrorIs(t, err, ErrNoLink, "it was used")

	late, _, err := s.Link(Credentials{Bearer: "edt_ana"}, time.Time{})
	require.NoError(t, err)
	now = now.Add(LinkLife)
	_, _, err = s.Open(late)
	require.ErrorIs(t, err, ErrNoLink, "its minute is over")
}

func TestASessionLendsItsCredentialsUntilItIsOver(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s := newSessions(t, "one", &now)
	given := Credentials{Bearer: "edt_ana", SPIFFE: []string{"spiffe://example/ana"}}
	ends := now.Add(time.Hour)
	code, _, err := s.Link(given, ends)
	require.NoError(t, err)
	text, over, err := s.Open(code)
	require.NoError(t, err)
	require.Equal(t, ends, over, "no longer than the credentials")

	got, until, err := newSessions(t, "one", &now).Read(text)
	require.NoError(t, err, "any worker of the plane reads it")
	require.Equal(t, given, got)
	require.True(t, ends.Equal(until))

	_, _, err = newSessions(t, "two", &now).Read(text)
	require.ErrorIs(t, err, ErrSessionOver, "another plane does not")
	require.NotEqual(t, newSessions(t, "two", &now).Cookie(), s.Cookie())
	for _, bad := range []string{"", "x", text[1:], text + "A", strings.ToUpper(text)} {
		_, _, err = s.Read(bad)
		require.ErrorIs(t, err, ErrSessionOver, bad)
	}
	now = ends
	_, _, err = s.Read(text)
	require.ErrorIs(t, err, ErrSessionOver)
}

func TestLinksAndSessionsAreBounded(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s := newSessions(t, "one", &now)
	for range maxLinks {
		_, _, err := s.Link(Credentials{}, time.Time{})
		require.NoError(t, err)
	}
	_, _, err := s.Link(Credentials{}, time.Time{})
	require.ErrorIs(t, err, ErrTooManyLinks)
	now = now.Add(LinkLife)
	code, _, err := s.Link(Credentials{Bearer: strings.Repeat("t", maxSession)}, time.Time{})
	require.NoError(t, err, "those before are over")
	_, _, err = s.Open(code)
	require.ErrorIs(t, err, ErrSessionTooLong)
}
