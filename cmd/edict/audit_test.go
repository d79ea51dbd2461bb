package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

func TestAnAuditShowsWhatNobodyVouchesForAsAClaim(t *testing.T) {
	var out strings.Builder
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	auditListing.write(&out, []resource.AuditEntry{
		{Seq: 1, Time: at, Principal: "root", CorrelationID: "c-1", Type: "node_updated", Subject: "s"},
		{Seq: 2, Time: at, Via: "nats", Claimed: "root", ClaimedCorrelationID: "c-1", Type: "node_updated", Subject: "s"},
		{Seq: 3, Time: at, Via: "nats", Type: "node_updated", Subject: "s", Rejected: "undecodable"},
	}, true)
	require.Equal(t, `SEQ   TIME                   PRINCIPAL            TYPE           ABOUT   DETAIL                  CORRELATION    SUBJECT
1     2026-11-20T12:00:00Z   root                 node_updated   s                               c-1            s
2     2026-11-20T12:00:00Z   nats (claims root)   node_updated   s                               (claims c-1)   s
3     2026-11-20T12:00:00Z   nats                 node_updated   s       rejected: undecodable                  s
`, out.String())
}

func TestAnAuditSaysWhatAnEventIsAbout(t *testing.T) {
	for subject, want := range map[string]string{
		"edict.log." + defaultProject + ".node.web-1":               "node/web-1",
		"edict.log.0190a1b2-0000-7000-8000-00000000000a.node.web-1": "node/web-1 of 0190a1b2-0000-7000-8000-00000000000a",
		"edict.log.access.ana":                                      "access/ana",
		"edict.log.junk":                                            "edict.log.junk",
	} {
		require.Equal(t, want, auditedWhat(subject))
	}
}
