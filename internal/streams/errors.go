package streams

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Errors of publishing and reading. They come wrapped with what the server
// said; ask with errors.Is.
var (
	// ErrNotFound: no message is stored there.
	ErrNotFound = errors.New("not found")
	// ErrWrongSequence: an expected last sequence did not hold (10071), or another publisher's check on the
	// same subject is in flight (10164). Nothing was stored.
	ErrWrongSequence = errors.New("wrong last sequence")
	// ErrDuplicate: the stream knows a message id of the batch (10201). Nothing was stored.
	ErrDuplicate = errors.New("duplicate message id")
	// ErrTooLarge: more messages than the server takes in a batch (10199). Nothing was stored; halve it.
	ErrTooLarge = errors.New("batch too large")
	// ErrMessageTooLarge: one message exceeds the server's max_payload. Nothing was stored.
	ErrMessageTooLarge = errors.New("message too large")
	// ErrBusy: the server cannot take it now (10210, 10176, 10167, no leader, a subject that nothing serves). Nothing was
	// stored; retry with backoff.
	ErrBusy = errors.New("not taken now")
	// ErrUnknown: the acknowledgement did not come. The messages may be stored, or be stored later.
	ErrUnknown = errors.New("no acknowledgement: the batch may or may not be stored")
	// ErrNoAnswer: a question was not answered in time, or the connection was lost meanwhile. Ask again.
	ErrNoAnswer = errors.New("no answer from NATS")
	// ErrStorage: the server's store or account is full or failed. Nothing was stored; make room, then retry.
	ErrStorage = errors.New("the store takes no more messages")
)

// DamagedError says that a stream is not the one that was opened, or lacks a
// sequence it must have. Reading on would show a smaller world, so it ends.
type DamagedError struct {
	Damage string // one of the Damage constants; "" for a stream that is not the log
	// From and To are the log sequences among which the damage lies, where that
	// is known: the first that is missing or may be wrong, and the last.
	From, To uint64
	Detail   string
}

// What may have happened to a log.
const (
	DamageHole      = "hole"      // sequences within are missing
	DamageTruncated = "truncated" // the tail is missing
	DamageChanged   = "changed"   // an event is not the one that was folded
	DamageOther     = "other_log" // it was made at another time
	DamageGone      = "gone"      // there is none
	DamageOrigin    = "origin"    // the origin of the log, which was compacted, is not what it says
	// DamageUnwitnessed: the log may be whole, but no link of its witness can be read.
	DamageUnwitnessed = "unwitnessed"
)

// Error says what is wrong and with which stream.
func (e *DamagedError) Error() string { return e.Detail }

// JetStream error codes that decide what a publisher does next.
const (
	codeInsufficientResources = 10023
	codeAccountResources      = 10002
	codeStorageExceeded       = 10047
	codeNotLeader             = 10009
	codeUnavailable           = 10008
	codeWrongSequence         = 10071
	codeCreateFailed          = 10049
	codeStoreFailed           = 10077
	codeDuplicateInProcess    = 10158
	codeWrongSequenceInFlight = 10164
	codeTooManyRequests       = 10167
	codeBatchIncomplete       = 10176
	codeBatchTooLarge         = 10199
	codeBatchDuplicate        = 10201
	codeBatchBusy             = 10210
	codeMessageTooLarge       = 10054
	codeStreamOffline         = 10118
)

type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// kind maps the server's code to the error a caller acts on, nil when there is no
// general rule.
func (e *apiError) kind() error {
	switch e.ErrCode {
	case codeWrongSequence, codeWrongSequenceInFlight:
		return ErrWrongSequence
	case codeBatchDuplicate:
		return ErrDuplicate
	case codeBatchTooLarge:
		return ErrTooLarge
	case codeMessageTooLarge:
		return ErrMessageTooLarge
	case codeBatchBusy, codeBatchIncomplete, codeTooManyRequests, codeNotLeader,
		codeUnavailable, codeStreamOffline, codeDuplicateInProcess:
		return ErrBusy
	case codeInsufficientResources, codeAccountResources, codeStorageExceeded, codeStoreFailed:
		return ErrStorage
	}
	return nil
}

// Error is the server's own words.
func (e *apiError) Error() string {
	return fmt.Sprintf("server: %s (%d)", e.Description, e.ErrCode)
}

// sorted wraps e in the error a caller asks for.
func (e *apiError) sorted() error {
	if kind := e.kind(); kind != nil {
		return fmt.Errorf("%w: %w", kind, e)
	}
	return e
}

// inFlight reports whether another publisher's check of the same subject, whose
// outcome is open, was the reason.
func inFlight(err error) bool {
	var e *apiError
	return errors.As(err, &e) && e.ErrCode == codeWrongSequenceInFlight
}

// ack is the server's answer to a publish.
type ack struct {
	Error     *apiError `json:"error"`
	Stream    string    `json:"stream"`
	Seq       uint64    `json:"seq"`
	Duplicate bool      `json:"duplicate"`
	Batch     string    `json:"batch"`
	Count     uint64    `json:"count"`
}

// parseAck reads an acknowledgement. An empty body, the receipt of a batch's
// first message, is an empty ack.
func parseAck(m *nats.Msg) (ack, error) {
	var a ack
	if len(m.Data) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return a, fmt.Errorf("%w: unreadable acknowledgement: %w", ErrUnknown, err)
	}
	if a.Error != nil {
		return a, a.Error.sorted()
	}
	return a, nil
}
