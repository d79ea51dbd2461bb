package convergence

import (
	"time"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// report is the last thing a node said, and what is known of it. It is kept for
// every node, so it is small: 64 bytes, without pointers.
type report struct {
	version  uint64
	previous uint64 // version of the report before; that of this one less 1 when nobody knows
	at       int64  // unix ns, when the stream took it; of what is not applied, the first of its outcome in a row
	judged   uint64 // event of the node's rows, or of the node, that holds was found under
	// table is the log sequence up to which the node says that the table it has in force is
	// right; 0: it enforces none, and says nothing of it.
	table    uint64
	print    [16]byte
	identity uint32 // likewise
	holds    bool   // the node holds what it must, as of judged
	wrong    bool   // it held something else than the log asked at version
	outcome  policy.Outcome
}

// half is the part of a fingerprint that is kept. A node that finds two rulesets
// with equal halves can only report something false about itself.
func half(fp compiler.Fingerprint) [16]byte { return [16]byte(fp[:16]) }

// known: the zero report is no report.
func (r *report) known() bool { return r.at != 0 }

// arrived is the report's arrival.
func (r *report) arrived() time.Time { return time.Unix(0, r.at).UTC() }

// applied reports whether the node says that it has anything in force as asked.
// What it does not say so of proves nothing.
func (r *report) applied() bool { return r.outcome == policy.OutcomeApplied }

// fresh reports whether holds is about the node as it is now, and the rows that it has
// now. since is the sequence of the last event that changed these, or the node.
func (r *report) fresh(identity uint32, since uint64) bool {
	return r.judged == since && r.identity == identity
}

// judge holds the report against the rows that the node must hold now, as of fresh's since: a
// report from there on that names other rules is wrong, and stays so until the next one.
func (r *report) judge(identity uint32, since uint64, want compiler.Fingerprint) {
	r.identity, r.judged = identity, since
	r.holds = r.applied() && r.print == half(want)
	if !r.holds && r.version >= since {
		r.wrong = true
	}
}

// proves reports whether the node has what an event at seq asked of it.
func (r *report) proves(seq uint64) bool {
	return r.known() && r.applied() && (r.holds || r.version >= seq && !r.wrong)
}

// tableFrom keeps what is said of the table, after an earlier report. What is not applied says
// nothing of the table, and so takes nothing back.
func (r *report) tableFrom(said *policy.Report, before uint64) {
	if r.table = said.Table; said.Table == 0 && said.Outcome != policy.OutcomeApplied {
		r.table = before
	}
}

// enforces reports whether the table that a node has in force is right as of a sequence, or
// the node enforces none.
func (r *report) enforces(seq uint64) bool { return r.table == 0 || r.table >= seq }

// first reports whether this is the first report that can know of seq.
func (r *report) first(seq uint64) bool { return r.previous < seq && seq <= r.version }

// pageBits makes pages of 64 reports: a store's ordinals begin anew in each
// partition, and a small plane should stay small.
const pageBits = 6

type page [1 << pageBits]report

// at is the report of a node that belongs into the page.
func (p *page) at(ordinal uint32) *report { return &p[ordinal%(1<<pageBits)] }

// table holds a report for each node, by its ordinal. It is not safe for
// concurrent use.
type table struct {
	pages   map[uint32]*page
	count   int     // nodes that reported
	not     int     // of these, those that said last that something is not applied; removed nodes, too
	reasons reasons // of those
	audits  audits
}

func newTable() *table {
	return &table{pages: map[uint32]*page{}, audits: audits{}}
}

var silence report

// of is a node's report, for reading; one that is not known when there is none.
func (t *table) of(ordinal uint32) *report {
	if p := t.pages[ordinal>>pageBits]; p != nil {
		return p.at(ordinal)
	}
	return &silence
}

// reader finds the reports of many nodes. Of those whose ordinals ascend it looks a page up
// once.
type reader struct {
	pages  map[uint32]*page
	number uint32
	page   *page
}

func (t *table) reader() reader { return reader{pages: t.pages, page: t.pages[0]} }

// of is a node's report, as table.of has it.
func (x *reader) of(ordinal uint32) *report {
	if n := ordinal >> pageBits; n != x.number {
		x.number, x.page = n, x.pages[n]
	}
	if x.page == nil {
		return &silence
	}
	return x.page.at(ordinal)
}

// put notes a report. heard says that this process listened when it came, and
// to what the node said before; otherwise nobody knows what that was. news is
// false when the node said the same before.
func (t *table) put(ordinal uint32, said policy.Report, at time.Time, heard bool) (r *report, news bool) {
	p := t.pages[ordinal>>pageBits]
	if p == nil {
		p = new(page)
		t.pages[ordinal>>pageBits] = p
	}
	r = p.at(ordinal)
	next := report{version: said.Version, print: half(said.Fingerprint), at: max(1, at.UnixNano()), outcome: said.Outcome}
	t.reasons.note(ordinal, said)
	t.audits.note(ordinal, said)
	next.tableFrom(&said, r.table)
	switch {
	case r.known() && r.version == said.Version && r.print == next.print && r.outcome == next.outcome:
		r.table = next.table
		return r, false // said again: what was proven was proven then
	case heard && r.known() && !r.applied():
		next.previous = min(r.previous, said.Version) // what came between proved nothing
	case heard && r.known():
		next.previous = min(r.version, said.Version)
	case said.Version > 0:
		next.previous = said.Version - 1
	}
	if r.known() && !next.applied() && r.outcome == next.outcome {
		next.at = r.at
	}
	t.tally(r, &next)
	*r = next
	return r, true
}

// forget drops what a node of an ordinal said last.
func (t *table) forget(ordinal uint32, r *report) {
	t.count--
	if !r.applied() {
		t.not--
	}
	t.reasons.drop(ordinal)
	delete(t.audits, ordinal)
	*r = report{}
}

// tally counts a report in the place of another.
func (t *table) tally(old, next *report) {
	if !old.known() {
		t.count++
	}
	if old.known() && !old.applied() {
		t.not--
	}
	if !next.applied() {
		t.not++
	}
}
