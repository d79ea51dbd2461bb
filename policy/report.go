package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Report is what a node says it applied: the log sequence up to which it has,
// and the fingerprint of the rules it holds then.
type Report struct {
	Version     uint64
	Fingerprint [sha256.Size]byte // of its merged block; of a node without rules that of the two characters []
}

// MaxReport is the length of the longest report that is read, in bytes.
const MaxReport = 1024

const (
	reportVersion = 1 << iota
	reportFingerprint
)

var reportFields = []string{"version", "fingerprint"}

// DecodeReport reads {"version","fingerprint"}, strictly. The error is
// Violations, every fault at once.
func DecodeReport(body []byte) (Report, error) {
	var rep Report
	seen := uint(0)
	faults := read(body, func(r *reader) {
		ok := r.object("a report", func(name []byte) bool {
			switch string(name) {
			case "version":
				seen |= reportVersion
				rep.Version = r.sequence()
			case "fingerprint":
				seen |= reportFingerprint
				rep.Fingerprint = r.fingerprint()
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
	b = strconv.AppendUint(append(b, `{"version":`...), r.Version, 10)
	b = base64.StdEncoding.AppendEncode(append(b, `,"fingerprint":"`...), r.Fingerprint[:])
	return append(b, `"}`...)
}

// sequence reads a place in the log: a whole number, written without fraction
// or exponent.
func (r *reader) sequence() uint64 {
	if r.ended {
		return 0
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		r.fail(err)
		return 0
	}
	if v.Kind() != jsontext.Kind('0') {
		r.note("", CodeWrongType, "want a log sequence, found "+kindName(v.Kind()))
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		r.note("", CodeInvalidVersion, "want a log sequence, a whole number from 0 to 2^64-1")
	}
	return n
}

func (r *reader) fingerprint() (fp [sha256.Size]byte) {
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
