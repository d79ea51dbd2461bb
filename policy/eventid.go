package policy

import (
	"fmt"
	"math"
	"strconv"
)

// EventID names one thing that a node is sent, and its place among all of them:
// (base + log sequence) << 22 | number (docs/design.md#delivery). base belongs to the
// log; number says which policy, artifact or table it is about. Ids rise in log
// order and mean the same in every worker. When a log is replaced, the base of the
// new log is above all ids of the old one. The zero EventID is below all ids.
type EventID uint64

// Numbers below a sequence. Policies have those from 0 on, in the order in which
// the plane accepted them.
const (
	numberBits = 22
	// NumberTable is that of a change of the node's table alone, and of the end of a
	// sequence: nothing of it stands above.
	NumberTable = 1<<numberBits - 1
	// NumberArtifact is that of the first artifact of a node's set, by kind and name,
	// as the event left the set; the others follow it.
	NumberArtifact = NumberTable - MaxArtifacts
	// NumberWithdrawn is that of the first artifact of the set that the event found:
	// the place of an artifact that it took away.
	NumberWithdrawn = NumberArtifact - MaxArtifacts
	// MaxPolicies is how many policies a plane accepts in its life.
	MaxPolicies = NumberWithdrawn
)

// NewEventID is the id of a number at a sequence of the log with that base.
func NewEventID(base, seq uint64, number uint32) EventID {
	return EventID((base+seq)<<numberBits | uint64(number))
}

// EndOf is the highest id of a sequence: everything of the sequence has been sent.
func EndOf(base, seq uint64) EventID { return NewEventID(base, seq, NumberTable) }

// Seq is the log sequence of the id in a log with that base; not ok: the id is
// of another log, one that was there before.
func (id EventID) Seq(base uint64) (seq uint64, ok bool) {
	place := uint64(id) >> numberBits
	if place < base {
		return 0, false
	}
	return place - base, true
}

// Number says what the id is about.
func (id EventID) Number() uint32 { return uint32(id & NumberTable) }

// String is the id in decimal digits, as on every wire.
func (id EventID) String() string { return strconv.FormatUint(uint64(id), 10) }

// ParseEventID reads decimal digits. A number that is too large for an id is
// beyond the end of every log.
func ParseEventID(text string) (EventID, error) {
	if text == "" {
		return 0, fmt.Errorf("an event id is a non-negative decimal number, not empty")
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%.40q is no event id: want a non-negative decimal number", text)
		}
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return math.MaxUint64, nil
	}
	return EventID(n), nil
}

// MarshalText writes the id in decimal digits; in JSON it is a string, because
// not every reader's numbers have 64 bits.
func (id EventID) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(id), 10), nil }

// UnmarshalText is ParseEventID.
func (id *EventID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseEventID(string(text))
	return err
}
