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
	writeAudit(&out, []resource.AuditEntry{
		{Seq: 1, Time: at, Principal: "root", CorrelationID: "c-1", Type: "node_updated", Subject: "s"},
		{Seq: 2, Time: at, Via: "nats", Claimed: "root", ClaimedCorrelationID: "c-1", Type: "node_updated", Subject: "s"},
		{Seq: 3, Time: at, Via: "nats", Type: "node_updated", Subject: "s", Rejected: "undecodable"},
	})
	require.Equal(t, `SEQ   TIME                   PRINCIPAL            TYPE           SUBJECT   DETAIL                  CORRELATION
1     2026-11-20T12:00:00Z   root                 node_updated   s                                 c-1
2     2026-11-20T12:00:00Z   nats (claims root)   node_updated   s                                 (claims c-1)
3     2026-11-20T12:00:00Z   nats                 node_updated   s         rejected: undecodable
`, out.String())
}
