package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

// Events that are followed stand under a header on a terminal, and what has no room goes on below,
// broken between words. A file gets a line each, as ever.
func TestEventsThatAreFollowedFitTheirTerminal(t *testing.T) {
	at := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	events := []resource.LogEvent{
		{AuditEntry: resource.AuditEntry{Seq: 7, Time: at, Type: "node_updated", Subject: "x", Principal: "ana"}, Verdict: "applied"},
		{AuditEntry: resource.AuditEntry{
			Seq: 12, Time: at, Type: "policy_revision_created", Policy: "web", Principal: "ana",
			Rejected: "revision_conflict", Detail: "the head of the policy is another revision than the change expects",
		}, Verdict: "rejected"},
	}
	print := func(l *look, format string) string {
		a := eventCommands{&app{console: console{stdout: l, format: format}}}
		shown := a.followed()
		for _, e := range events {
			require.NoError(t, a.printEvent(e, shown))
		}
		return plain(l.String())
	}
	require.Equal(t, `SEQ   TIME                  TYPE                     ABOUT       BY         VERDICT  DETAIL
7     2026-11-17T12:00:00Z  node_updated             x           ana        applied
12    2026-11-17T12:00:00Z  policy_revision_created  policy/web  ana        rejected revision_conflict
      the head of the policy is another revision than the change expects
`, print(&look{columns: 104}, formatTable))
	require.Equal(t, `SEQ   TIME       TYPE                     ABOUT       BY         VERDICT  DETAIL
7     2026-11-17T12:00:00Z  node_updated  x           ana        applied
12    2026-11-17T12:00:00Z  policy_revision_created  policy/web  ana
      rejected revision_conflict
      the head of the policy is another revision than the change expects
`, print(&look{columns: 80}, formatTable))
	require.Equal(t, `7  2026-11-17T12:00:00Z  node_updated  x  ana  applied
12  2026-11-17T12:00:00Z  policy_revision_created  policy/web  ana  rejected revision_conflict  the head of the policy is another revision than the change expects
`, print(new(look), formatTable))
	wide := print(&look{columns: 40}, formatWide)
	require.Equal(t, 3, strings.Count(wide, "\n"), "-o wide breaks nothing")
	require.Contains(t, wide, "CORRELATION")
}

// Who follows the events is told once that the stream has ended, however often it is asked for again.
func TestAStreamThatHasEndedIsSaidOnce(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch asked {
		case 1, 4: // the plane is there, and goes
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: following\ndata: {\"seq\":7}\n\n")
		case 6:
			stop()
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{Patience: -1})
	require.NoError(t, err)
	var said strings.Builder
	a := eventCommands{&app{console: console{stdout: new(look), stderr: &said}}}
	require.NoError(t, a.followEvents(ctx, c, uuid.Nil, nil))
	require.Equal(t, strings.Repeat("following what comes after event 7\nthe stream has ended; following on behind event 7\n", 2), said.String())
}
