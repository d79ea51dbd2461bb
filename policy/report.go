package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// Report is what a node says it applied: how far it has, and the fingerprint of
// the rules it holds then. How far is the event id it acted on last, or, of
// agents that know no event ids, a log sequence.
type Report struct {
	Version     uint64            // a log sequence; it says nothing where Event is set
	Event       EventID           // 0: Version says how far
	Fingerprint [sha256.Size]byte // of its merged block; of a node without rules that of the two characters []
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
const MaxReport = 1024

const (
	reportVersion = 1 << iota
	reportFingerprint
)

var reportFields = []string{"version", "fingerprint"}

// DecodeReport reads {"event_id","version","fingerprint"}, strictly. One of the
// first two is enough. The error is Violations, every fault at once.
func DecodeReport(body []byte) (Report, error) {
	var rep Report
	seen := uint(0)
	faults := read(body, func(r *reader) {
		ok := r.object("a report", func(name []byte) bool {
			switch string(name) {
			case "version":
				seen |= reportVersion
				rep.Version = r.sequence()
			case "event_id":
				seen |= reportVersion
				rep.Event = readEventID(r)
			case "fingerprint":
				seen |= reportFingerprint
				rep.Fingerprint = readFingerprint(r)
			default:
				return false
			}
			return true
		})
		if ok {
			r.require(reportVersion|reportFingerprint, seen, reportFields)
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
	return append(b, `"}`...)
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
