package policy

import (
	"fmt"
	"strconv"
)

// MaxWaves is the most waves that a rollout names; after the last comes every other
// node.
const MaxWaves = 16

// Gate is what the nodes that a rollout has reached should report before its next
// wave opens. Both percents are whole, and of those nodes.
type Gate struct {
	MinApplied uint8 // that have applied what they were sent
	MaxRefused uint8 // that refused it; with more of them the rollout stops
	Abort      bool  // a rollout that stops ends, and all nodes go back; otherwise it stays where it is
}

// What becomes of a rollout that too many nodes refuse, on the wire.
const (
	OnRefusalStop  = "stop"  // no further wave opens by itself
	OnRefusalAbort = "abort" // it ends, and all nodes go back to the head
)

// OnRefusal is the name of what becomes of a rollout that stops.
func (g Gate) OnRefusal() string {
	if g.Abort {
		return OnRefusalAbort
	}
	return OnRefusalStop
}

// DefaultGate is that of a promotion that says nothing else.
var DefaultGate = Gate{MinApplied: 95, MaxRefused: 1}

// MaxPercent is the most that a side of a Gate can be.
const MaxPercent = 100

// Passed reports whether enough of the nodes have applied what they were sent.
func (g Gate) Passed(applied, nodes int) bool { return applied*MaxPercent >= int(g.MinApplied)*nodes }

// Broken reports whether too many of the nodes refused it.
func (g Gate) Broken(refused, nodes int) bool { return refused*MaxPercent > int(g.MaxRefused)*nodes }

// AppendWaves appends a JSON array of the selectors' texts.
func AppendWaves(b []byte, waves []Expr) []byte {
	b = append(b, '[')
	for i, w := range waves {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(w.AppendText(append(b, '"')), '"') // the alphabet needs no escaping
	}
	return append(b, ']')
}

func readWaves(r *reader) (waves []Expr) {
	ok := r.array("an array of selectors", func(int) { waves = append(waves, readExpr(r)) })
	if ok && len(waves) > MaxWaves {
		r.note("", CodeWavesOutOfRange, fmt.Sprintf("%d waves; a rollout names at most %d", len(waves), MaxWaves))
	}
	return waves
}

func readPercent(r *reader) uint8 {
	n, _ := r.number(0, MaxPercent, CodePercentOutOfRange, "a whole percent from 0 to 100")
	return uint8(n) //nolint:gosec // at most 100
}

// readOnRefusal reports whether a rollout that stops ends.
func readOnRefusal(r *reader) bool {
	text, ok := r.text("a string")
	if ok && string(text) != OnRefusalStop && string(text) != OnRefusalAbort {
		r.note("", CodeUnknownOnRefusal, fmt.Sprintf("%.32q is none of stop and abort", text))
	}
	return string(text) == OnRefusalAbort
}

// readWave reads the number of a wave. The last one that can be is that of the
// nodes which no wave names.
func readWave(r *reader) uint8 {
	n, _ := r.number(1, MaxWaves+1, CodeWavesOutOfRange, "the number of a wave, from 1 to "+strconv.Itoa(MaxWaves+1))
	return uint8(n) //nolint:gosec // a few
}

// decodeMove reads the members of what is asked of a rollout, of which the first
// some are required. The error is Violations, every fault at once.
func decodeMove(body []byte, what string, fields []string, required uint, field func(r *reader, name string)) error {
	seen := uint(0)
	return read(body, func(r *reader) {
		ok := r.object(what, func(name []byte) bool {
			bit := fieldBit(fields, name)
			if seen |= bit; bit != 0 {
				field(r, string(name))
			}
			return bit != 0
		})
		if ok {
			r.require(required, seen, fields)
		}
	}).orNil()
}

// DecodeNextWave reads {"revision_id"?,"wave"}.
func DecodeNextWave(body []byte) (e WaveOpened, err error) {
	err = decodeMove(body, "a wave", []string{"wave", "revision_id"}, 1, func(r *reader, name string) {
		if name == "wave" {
			e.Wave = readWave(r)
		} else {
			e.Revision = r.uuid()
		}
	})
	return e, err
}

// DecodeAbort reads {"revision_id"?,"reason"?}.
func DecodeAbort(body []byte) (e RolloutAborted, err error) {
	err = decodeMove(body, "an abort", []string{"revision_id", "reason"}, 0, func(r *reader, name string) {
		if name == "reason" {
			e.Reason = readReason(r)
		} else {
			e.Revision = r.uuid()
		}
	})
	return e, err
}

// Promotion is how a staged revision is to become the head.
type Promotion struct {
	Waves []Expr // of the nodes that get it before the others, in order; none: at once
	Gate  Gate
}

// DecodePromotion reads {"revision_id"?,"waves"?,"min_applied_percent"?,"max_refused_percent"?,"on_refusal"?}.
func DecodePromotion(body []byte) (e RevisionPromoted, err error) {
	e.Gate = DefaultGate
	fields := []string{"revision_id", "waves", "min_applied_percent", "max_refused_percent", "on_refusal"}
	err = decodeMove(body, "a promotion", fields, 0, func(r *reader, name string) {
		switch name {
		case "waves":
			e.Waves = readWaves(r)
		case "min_applied_percent":
			e.Gate.MinApplied = readPercent(r)
		case "max_refused_percent":
			e.Gate.MaxRefused = readPercent(r)
		case "on_refusal":
			e.Gate.Abort = readOnRefusal(r)
		default:
			e.Revision = r.uuid()
		}
	})
	return e, err
}
