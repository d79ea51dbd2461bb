package rete

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// EnrollmentLog is the append-only record of certificates, at the root of a
// repository: a JSON object a line.
const EnrollmentLog = "enrollment.log"

// maxLog is the most bytes of an enrollment log, some hundred thousand events.
const maxLog = 64 << 20

// Events of the log.
const (
	EventSign   = "sign"
	EventRevoke = "revoke"
)

// Enrollment is one event of the log. Its order is that of the file, not of
// its times.
type Enrollment struct {
	Event       string `json:"event"`
	Time        string `json:"ts"`        // RFC 3339
	Operator    string `json:"operator"`  // SPIFFE ID of who did it
	SPIFFE      string `json:"spiffe_id"` // of the certificate
	Role        string `json:"role,omitempty"`
	Fingerprint string `json:"fingerprint"` // of the certificate: see Fingerprint
}

// certificateState is what became of one certificate.
type certificateState bool

const (
	stateLive    certificateState = true
	stateRevoked certificateState = false
)

// Enrollments is what a log adds up to.
type Enrollments struct {
	byID   map[string]map[string]certificateState // SPIFFE ID → fingerprint
	alive  map[string]int                         // SPIFFE ID → live certificates
	newest time.Time
}

// Newest is the latest time of an event, in UTC; zero: there is none.
func (e *Enrollments) Newest() time.Time { return e.newest }

// Live says whether a principal has a certificate that was not revoked.
func (e *Enrollments) Live(spiffe string) bool { return e.alive[spiffe] > 0 }

// Principals are those with a certificate that was not revoked, sorted.
func (e *Enrollments) Principals() []string {
	var all []string
	for id, n := range e.alive {
		if n > 0 {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// LiveCertificate says whether this certificate of a principal was signed and
// not revoked.
func (e *Enrollments) LiveCertificate(spiffe, fingerprint string) bool {
	return e.byID[spiffe][fingerprint] == stateLive
}

// Revoked says whether this certificate of a principal was signed, and revoked later.
func (e *Enrollments) Revoked(spiffe, fingerprint string) bool {
	state, known := e.byID[spiffe][fingerprint]
	return known && state == stateRevoked
}

// Principal finds whose live certificate has that fingerprint; empty: nobody's.
func (e *Enrollments) Principal(fingerprint string) string {
	for id, all := range e.byID {
		if all[fingerprint] == stateLive {
			return id
		}
	}
	return ""
}

// ReadEnrollments reads the log of a repository. Faults break rule 4. No log at
// all is one fault, and enrolls nobody.
func ReadEnrollments(repo fs.FS) (*Enrollments, []Fault) {
	e := &Enrollments{byID: map[string]map[string]certificateState{}, alive: map[string]int{}}
	var r report
	text, err := ReadFile(repo, EnrollmentLog, maxLog)
	if err != nil {
		message := bare(err).Error()
		if errors.Is(err, fs.ErrNotExist) {
			message = "there is no such file, so nobody is enrolled; retectl ca init begins it, retectl ca sign adds to it"
		}
		r.add("4", place{file: EnrollmentLog}, "", "%s", message)
		return e, r.faults
	}
	at := place{EnrollmentLog, 0, 1}
	for line := range bytes.Lines(text) {
		at.line++
		event, err := parseEnrollment(bytes.TrimSuffix(line, []byte("\n")))
		if err == nil {
			err = e.apply(event)
		}
		if err != nil {
			r.add("4", at, event.SPIFFE, "%v", err)
		}
	}
	return e, r.faults
}

func parseEnrollment(line []byte) (Enrollment, error) {
	var e Enrollment
	if len(bytes.TrimSpace(line)) == 0 {
		return e, errors.New("an empty line; the log has one event on every line")
	}
	if !utf8.Valid(line) {
		return e, errors.New("not UTF-8 text")
	}
	if err := json.Unmarshal(line, &e, json.RejectUnknownMembers(true)); err != nil {
		return Enrollment{}, fmt.Errorf("not an event, which is a JSON object of event, ts, operator, spiffe_id, fingerprint and role: %w", err)
	}
	if e.Event != EventSign && e.Event != EventRevoke {
		return e, fmt.Errorf("event %.40q; want %s or %s", e.Event, EventSign, EventRevoke)
	}
	if _, err := ParseTime(e.Time); err != nil {
		return e, fmt.Errorf("ts %w", err)
	}
	for _, id := range []struct{ name, text string }{{"operator", e.Operator}, {"spiffe_id", e.SPIFFE}} {
		if !strings.HasPrefix(id.text, principalTemplate) {
			return e, fmt.Errorf("%s %.80q is not a SPIFFE ID, spiffe://<rete>/<kind>/<name>", id.name, id.text)
		}
	}
	if !validFingerprint(e.Fingerprint) {
		return e, fmt.Errorf("fingerprint %.80q is not sha256: and 64 hex digits", e.Fingerprint)
	}
	return e, nil
}

const fingerprintPrefix = "sha256:"

func validFingerprint(text string) bool {
	digits, ok := strings.CutPrefix(text, fingerprintPrefix)
	raw, err := hex.DecodeString(digits)
	const sha256Bytes = 32
	return ok && err == nil && len(raw) == sha256Bytes && strings.ToLower(digits) == digits
}

// ParseTime reads an RFC 3339 time that is one in UTC, too: at the end of year 9999 it
// may not be.
func ParseTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if at = at.UTC(); err != nil || at.Year() < 0 || at.Year() > 9999 {
		return at, fmt.Errorf("%.40q is not an RFC 3339 time, such as 2026-04-20T12:00:00Z", text)
	}
	return at, nil
}

// apply is the next event of the log.
func (e *Enrollments) apply(event Enrollment) error {
	if at, err := ParseTime(event.Time); err == nil && at.After(e.newest) {
		e.newest = at.Truncate(time.Second)
	}
	all := e.byID[event.SPIFFE]
	state, known := all[event.Fingerprint]
	switch {
	case event.Event == EventRevoke && !known:
		return fmt.Errorf("revokes %s of %s, which was never signed: a typing mistake would leave the certificate alive", event.Fingerprint, event.SPIFFE)
	case event.Event == EventSign && known && state == stateRevoked:
		return fmt.Errorf("signs %s of %s again, which was revoked; issue a new certificate", event.Fingerprint, event.SPIFFE)
	case event.Event == EventRevoke && state == stateLive:
		all[event.Fingerprint] = stateRevoked
		e.alive[event.SPIFFE]--
	case event.Event == EventSign && !known:
		if all == nil {
			all = map[string]certificateState{}
			e.byID[event.SPIFFE] = all
		}
		all[event.Fingerprint] = stateLive
		e.alive[event.SPIFFE]++
	}
	return nil
}
