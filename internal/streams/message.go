package streams

import (
	"strconv"
	"strings"
	"time"
)

// Headers that the server reads.
const (
	headerExpectLast  = "Nats-Expected-Last-Subject-Sequence"
	headerExpectSeq   = "Nats-Expected-Last-Sequence"
	headerExpectName  = "Nats-Expected-Stream"
	headerTTL         = "Nats-TTL"
	headerBatchID     = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// Message is a stored message of any stream. It looks the same however it was
// read: what the server adds for transport is taken off.
type Message struct {
	Seq     uint64
	Subject string
	Body    []byte
	Header  map[string][]string
	Time    time.Time // UTC, the server's timestamp
}

// Get returns the first value of a header, "" when there is none. Names match
// exactly as they were written.
func (m *Message) Get(name string) string {
	if v := m.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Stored is how many bytes the log's server counts for a message that it keeps in a
// file: those of its record. Records are compressed in no stream of ours.
func (m *Message) Stored() int {
	n := recordSize + len(m.Subject) + len(m.Body)
	for k, vs := range m.Header {
		for _, v := range vs {
			n += headerSize(k, v)
		}
	}
	if len(m.Header) > 0 {
		n += headersSize
	}
	return n
}

const (
	// recordSize is of a record's frame: its length, sequence and time, the length of the
	// subject, and the hash.
	recordSize = 4 + 8 + 8 + 2 + 8
	// headersSize is of headers beside their lines: their length, and their first and last line.
	headersSize = 4 + len("NATS/1.0\r\n\r\n")
)

// headerSize is that of the line of a header.
func headerSize(name, value string) int { return len(name) + len(": ") + len(value) + len("\r\n") }

// Size is what a message weighs in memory, roughly, in bytes.
func (m *Message) Size() int {
	n := len(m.Body) + len(m.Subject) + 64
	for k, vs := range m.Header {
		n += len(k) + 32
		for _, v := range vs {
			n += len(v)
		}
	}
	return n
}

// delivery is what a consumer tells about a message in its reply subject.
type delivery struct {
	streamSeq   uint64
	consumerSeq uint64
	time        time.Time
	pending     uint64
}

// parseDelivery reads a reply subject of the form
// $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>,
// which newer servers may extend by a domain and an account hash in front of
// the stream and a token at the end. Far cheaper than a client's metadata.
func parseDelivery(reply string) (delivery, bool) {
	const prefix = "$JS.ACK."
	rest, ok := strings.CutPrefix(reply, prefix)
	if !ok {
		return delivery{}, false
	}
	// Tokens between the prefix and the stream sequence: stream, consumer,
	// delivered; and two more in the long form.
	skip := 3
	if strings.Count(rest, ".") > 6 {
		skip = 5
	}
	for range skip {
		if _, rest, ok = strings.Cut(rest, "."); !ok {
			return delivery{}, false
		}
	}
	var n [4]uint64
	for i := range n {
		var token string
		token, rest, _ = strings.Cut(rest, ".")
		v, err := strconv.ParseUint(token, 10, 63)
		if err != nil {
			return delivery{}, false
		}
		n[i] = v
	}
	return delivery{
		streamSeq:   n[0],
		consumerSeq: n[1],
		time:        time.Unix(0, int64(n[2])).UTC(), //nolint:gosec // 63 bits were parsed
		pending:     n[3],
	}, true
}
