package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Report is what a node says became of what it was sent: how far it has come, the
// fingerprint of the rules then, and whether they are in force. How far is the
// event id it acted on last, or, of agents that know no event ids, a log sequence.
type Report struct {
	Version     uint64            // a log sequence; it says nothing where Event is set
	Event       EventID           // 0: Version says how far
	Fingerprint [sha256.Size]byte // of its merged block; of a node without rules that of the two characters []
	Outcome     Outcome
	Reason      string // why it is not OutcomeApplied, for people: one line of at most MaxReason bytes
	// Table is a log sequence at which the table that the node has in force was the right
	// one; 0: it enforces none, or does not say.
	Table uint64
	// Audited is what policies in audit mode would have denied since the node began to
	// count, at most MaxAudited of them.
	Audited []AuditCount
}

// Outcome says whether a node has the rules of its report in force.
type Outcome uint8

// The closed set of outcomes. Of all but the first the report never counts as applied.
const (
	OutcomeApplied Outcome = iota // they are in force
	OutcomeRefused                // they could not be put in force; others are, or none
	OutcomeStale                  // the node could not learn for too long whether they are still right
	OutcomeDrift                  // something else was in force, until the node put it right
)

// Outcomes are the names of all of them, by value.
var Outcomes = []string{"applied", "refused", "stale", "drift"}

// String is the outcome's name on the wire.
func (o Outcome) String() string {
	if int(o) < len(Outcomes) {
		return Outcomes[o]
	}
	return "unknown"
}

// Seq is the log sequence up to which the node has applied, in a log with that
// base. Of an id of another log it is 0: such a report says by its fingerprint
// alone what the node has.
func (r Report) Seq(base uint64) uint64 {
	if r.Event == 0 {
		return r.Version
	}
	seq, _ := r.Event.Seq(base)
	return seq
}

// MaxReport is the length of the longest report that is read, in bytes.
const MaxReport = 4096

// MaxReason is the length of the longest reason of a report, in bytes.
const MaxReason = 512

const (
	reportEvent = 1 << iota // or version, which agents say that know no event ids
	reportFingerprint
)

var reportFields = []string{"event_id", "fingerprint"}

// DecodeReport reads {"event_id","version","fingerprint","outcome","reason",
// "table_version","audited"}, strictly. One of the first two is enough, and what stands
// behind the fingerprint may be absent: then the outcome is OutcomeApplied. The error is Violations, every fault at once.
func DecodeReport(body []byte) (Report, error) {
	var rep Report
	seen := uint(0)
	faults := read(body, func(r *reader) {
		ok := r.object("a report", func(name []byte) bool {
			switch string(name) {
			case "version":
				seen |= reportEvent
				rep.Version = r.sequence()
			case "event_id":
				seen |= reportEvent
				rep.Event = readEventID(r)
			case "fingerprint":
				seen |= reportFingerprint
				rep.Fingerprint = readFingerprint(r)
			case "outcome":
				rep.Outcome = readOutcome(r)
			case "reason":
				rep.Reason = readReason(r)
			case "table_version":
				rep.Table = r.sequence()
			case "audited":
				rep.Audited = readAudited(r)
			default:
				return false
			}
			return true
		})
		if ok {
			r.require(reportEvent|reportFingerprint, seen, reportFields)
		}
	})
	return rep, faults.orNil()
}

// AppendReport appends the JSON that DecodeReport reads.
func AppendReport(b []byte, r Report) []byte {
	b = append(b, '{')
	if r.Event != 0 {
		b = strconv.AppendUint(append(b, `"event_id":"`...), uint64(r.Event), 10)
		b = append(b, `",`...)
	}
	if r.Version != 0 || r.Event == 0 {
		b = strconv.AppendUint(append(b, `"version":`...), r.Version, 10)
		b = append(b, ',')
	}
	b = base64.StdEncoding.AppendEncode(append(b, `"fingerprint":"`...), r.Fingerprint[:])
	b = append(b, '"')
	if r.Outcome != OutcomeApplied {
		b = append(append(append(b, `,"outcome":"`...), r.Outcome.String()...), '"')
	}
	if r.Reason != "" {
		b = append(b, `,"reason":`...)
		b, _ = jsontext.AppendQuote(b, r.Reason) // what is no UTF-8 is replaced
	}
	if r.Table != 0 {
		b = strconv.AppendUint(append(b, `,"table_version":`...), r.Table, 10)
	}
	if len(r.Audited) > 0 {
		b = appendAudited(append(b, `,"audited":`...), r.Audited)
	}
	return append(b, '}')
}

// ReasonOf makes a reason of any text: one line, cut to at most MaxReason bytes.
func ReasonOf(text string) string {
	out := make([]byte, 0, min(len(text), MaxReason))
	for _, c := range text { // what is no UTF-8 comes as U+FFFD
		if breaksLine(c) {
			c = ' '
		}
		if len(out)+utf8.RuneLen(c) > MaxReason {
			break
		}
		out = utf8.AppendRune(out, c)
	}
	return string(out)
}

func breaksLine(c rune) bool {
	return unicode.IsControl(c) || unicode.In(c, unicode.Zl, unicode.Zp)
}

func readOutcome(r *reader) Outcome {
	text, ok := r.text("an outcome")
	if !ok {
		return OutcomeApplied
	}
	i := slices.Index(Outcomes, string(text))
	if i < 0 {
		r.note("", CodeUnknownOutcome, fmt.Sprintf("%.32q is not an outcome; use applied, refused, stale or drift", text))
		return OutcomeApplied
	}
	return Outcome(i)
}

func readReason(r *reader) string {
	text, ok := r.text("a string")
	switch {
	case !ok:
	case len(text) > MaxReason:
		r.note("", CodeTextTooLong, fmt.Sprintf("%d bytes; at most %d", len(text), MaxReason))
	case bytes.ContainsFunc(text, breaksLine):
		r.note("", CodeControlCharacter, "has a line break or another control character; remove it")
	default:
		return string(text)
	}
	return ""
}

// readEventID reads an event id, which is a string in JSON.
func readEventID(r *reader) EventID {
	text, ok := r.text("an event id, a string")
	if !ok {
		return 0
	}
	id, err := ParseEventID(string(text))
	if err != nil {
		r.note("", CodeInvalidVersion, err.Error())
	}
	return id
}

func readFingerprint(r *reader) (fp [sha256.Size]byte) {
	text, ok := r.text("a fingerprint")
	if !ok {
		return fp
	}
	raw, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	if err != nil || len(raw) != len(fp) || len(text) != base64.StdEncoding.EncodedLen(len(fp)) {
		r.note("", CodeInvalidFingerprint, "want the base64 of 32 bytes, 44 characters")
		return fp
	}
	return [sha256.Size]byte(raw)
}
