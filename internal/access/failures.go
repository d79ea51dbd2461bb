package access

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// failuresKept bounds how many addresses are remembered. Beyond it those that
// failed longest ago are forgotten, at worst one that still had to wait.
const failuresKept = 1 << 14

// Failures counts what was shown in vain, wrong tokens above all, by the address
// it came from. Who failed too often is not looked after any more for a while;
// credentials that are good are good from anywhere, so that nobody can lock out
// others behind the same address.
type Failures struct {
	// OnRefusal hears of each that is refused, one of Refusals; nil: nobody does. It is
	// set before anything is counted.
	OnRefusal func(refusal string)

	each  rate.Limit
	burst int

	mu   sync.Mutex
	of   map[netip.Prefix]*rate.Limiter
	ring []netip.Prefix // in the order in which they came
	next int
}

// Refusals are why credentials are refused: they are nobody's, or their address
// failed too often for them to be looked for.
var Refusals = [...]string{refusedUnknown, refusedUnseen}

const (
	refusedUnknown = "unknown"
	refusedUnseen  = "too_many"
)

// NewFailures allows each address perSecond failures, and ten seconds' worth at
// once.
func NewFailures(perSecond int) *Failures {
	return &Failures{each: rate.Limit(perSecond), burst: 10 * perSecond, of: map[netip.Prefix]*rate.Limiter{}, ring: make([]netip.Prefix, failuresKept)}
}

// Blocked says after how long an address may fail again; zero: now. Whoever asks
// refuses what the address shows for so long. A nil Failures blocks nobody.
func (f *Failures) Blocked(from netip.Addr, now time.Time) time.Duration {
	if f == nil {
		return 0
	}
	wait := f.wait(from, now)
	if wait > 0 && f.OnRefusal != nil {
		f.OnRefusal(refusedUnseen)
	}
	return wait
}

func (f *Failures) wait(from netip.Addr, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.of[neighbours(from)]
	if l == nil {
		return 0
	}
	if has := l.TokensAt(now); has < 1 {
		return time.Duration((1 - has) / float64(f.each) * float64(time.Second))
	}
	return 0
}

// Note counts a failure.
func (f *Failures) Note(from netip.Addr, now time.Time) {
	if f == nil {
		return
	}
	if f.OnRefusal != nil {
		f.OnRefusal(refusedUnknown)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k := neighbours(from)
	l := f.of[k]
	if l == nil {
		l = rate.NewLimiter(f.each, f.burst)
		delete(f.of, f.ring[f.next])
		f.of[k], f.ring[f.next] = l, k
		f.next = (f.next + 1) % len(f.ring)
	}
	l.AllowN(now, 1)
}

// neighbours are the addresses that one owner has at will: an IPv6 network of 64
// bits.
func neighbours(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	p, _ := a.Prefix(min(a.BitLen(), 64)) // the zero address has no length: the zero prefix
	return p
}
