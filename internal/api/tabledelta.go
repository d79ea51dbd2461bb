package api

import (
	"bytes"
	"net/http"

	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/wire/dcz"
)

var heldParam = headerTag(dcz.Header, "The fingerprint of a table that the client has, between two colons (RFC 9842). A client that also accepts the coding "+dcz.Coding+
	" may get what changed since: the answer, coded with that table's {\"identities\":…,\"entries\":…}.")

// maxDeltas is how many tables are coded with others at a time: each takes several
// times their memory.
const maxDeltas = 2

// delta answers with a body, coded with the table that the client says it has. It
// reports false, and has written nothing, where that table is not known here, where the
// client does not take the coding, and while too many do the same.
func (h *tableHandlers) delta(c *call, tables *snapshot.Tables, a snapshot.Answer, body []byte) bool {
	header := c.w.Header()
	header.Add("Vary", dcz.Header)
	sum, ok := dcz.ParseName(c.r.Header.Get(dcz.Header))
	if !ok || len(body) < minCoded || len(body) > dcz.Max || !takesCoding(c.r.Header.Values("Accept-Encoding"), dcz.Coding) {
		return false
	}
	held, ok := tables.Kept(a.Node.Project, sum)
	if !ok || len(held.Body)+2 > dcz.Max || !h.deltas.TryAcquire(1) {
		return false
	}
	var coded bytes.Buffer
	err := dcz.Encode(&coded, body, held.Document(), sum)
	h.deltas.Release(1) // before who reads slowly
	if err != nil {
		return false
	}
	header.Add("Vary", "Accept-Encoding")
	header.Set("Content-Encoding", dcz.Coding)
	c.bytes(http.StatusOK, mediaJSON, coded.Bytes())
	return true
}
