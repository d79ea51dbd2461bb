package policy

import (
	"fmt"
	"slices"
	"strconv"
)

// MaxWaves is the most waves that a rollout names; after the last comes every other
// node.
const MaxWaves = 16

// Gate is what the nodes that a rollout has reached must say before its next wave
// opens. Both are whole percents of those nodes.
type Gate struct {
	MinApplied uint8 // that have applied what they were sent
	MaxRefused uint8 // that refused it; more of them stop the rollout
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

// readWave reads the number of a wave. The last one that can be is that of the
// nodes which no wave names.
func readWave(r *reader) uint8 {
	n, _ := r.number(1, MaxWaves+1, CodeWavesOutOfRange, "the number of a wave, from 1 to "+strconv.Itoa(MaxWaves+1))
	return uint8(n) //nolint:gosec // a few
}

// Promotion is how a staged revision is to become the head.
type Promotion struct {
	Waves []Expr // of the nodes that get it before the others, in order; none: at once
	Gate  Gate
}

// DecodePromotion reads {"revision_id","waves","min_applied_percent","max_refused_percent"},
// all but the first optional. The error is Violations, every fault at once.
func DecodePromotion(body []byte) (p RevisionPromoted, err error) {
	p.Gate = DefaultGate
	seen := uint(0)
	fields := []string{"revision_id"}
	faults := read(body, func(r *reader) {
		ok := r.object("a promotion", func(name []byte) bool {
			seen |= fieldBit(fields, name)
			switch string(name) {
			case "revision_id":
				p.Revision = r.uuid()
			case "waves":
				p.Waves = readWaves(r)
			case "min_applied_percent":
				p.Gate.MinApplied = readPercent(r)
			case "max_refused_percent":
				p.Gate.MaxRefused = readPercent(r)
			default:
				return false
			}
			return true
		})
		if ok {
			r.require(1, seen, fields)
		}
	})
	p.Waves = slices.Clip(p.Waves)
	return p, faults.orNil()
}
