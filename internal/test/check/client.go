package check

import (
	"fmt"
	"slices"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/watch"
	"github.com/edictdev/edict/policy"
)

// client is what a node knows while its record is read.
type client struct {
	watch.Record
	last policy.EventID // the highest acted upon
	held map[oracle.Thing]watch.Frame
	owes bool // it was told to pull and has not
}

// record judges one client's life.
func (j *judgement) record(rec watch.Record) {
	c := &client{Record: rec, held: map[oracle.Thing]watch.Frame{}}
	for i, s := range rec.Sessions {
		where := fmt.Sprintf("node %s, %s session %d after %s", rec.Node, s.Over, i+1, j.place(s.After))
		if s.Broken != "" {
			j.breaks(Readable, "%s: %s", where, s.Broken)
		}
		switch s.Over {
		case "pull":
			j.pulled(where, c, s)
		case "live":
			j.heard(where, c, s)
		default:
			j.session(where, c, i)
		}
	}
	if rec.Settled && !c.owes {
		j.held(c)
	}
}

// pulled replaces what the client holds. A pull is as new as the log's head, so it
// never stands below what the client acted on: who went on from there would act on
// ids twice. Where the log lost its tail, or is another one, it may.
func (j *judgement) pulled(where string, c *client, s watch.Session) {
	at, ours := s.After.Seq(j.Base)
	_, before := c.last.Seq(j.Base)
	lost := slices.ContainsFunc(j.Breaks, func(b uint64) bool { return at <= b })
	if s.After < c.last && ours && before && !lost {
		j.breaks(Ordered, "%s: the state is that of %s, and it acted on %s", where, j.place(s.After), j.place(c.last))
	}
	for t := range c.held {
		if t.Policy != "" {
			delete(c.held, t) // artifacts are not in a state
		}
	}
	for p, f := range s.Rows {
		c.held[oracle.Thing{Policy: p}] = f
	}
	c.last, c.owes = s.After, false
}

// take has the client act on a frame.
func (c *client) take(f watch.Frame) {
	c.last = max(c.last, f.ID)
	switch {
	case toLook(f):
		c.owes = c.owes || resync(f)
	case gone(f):
		delete(c.held, Thing(f))
	default:
		c.held[Thing(f)] = f
	}
}

// meets judges one message as the client meets it; not ok: it is another node's.
func (j *judgement) meets(where string, c *client, f watch.Frame) (ok bool) {
	if f.Node != c.Node {
		j.breaks(Own, "%s: a message of %s at %s", where, f.Node, j.place(f.ID))
		return false
	}
	j.message(where, f)
	return true
}

// heard judges what was live on the subject: it may be lost, come twice and out
// of order, and the client acts on what rises.
func (j *judgement) heard(where string, c *client, s watch.Session) {
	for _, f := range s.Frames {
		if j.meets(where, c, f) && (f.ID > c.last || resync(f)) {
			c.take(f)
		}
	}
}

// session judges a stream over SSE, or an answer over NATS.
func (j *judgement) session(where string, c *client, at int) {
	s := c.Sessions[at]
	j.pullOwed(where, s)
	before, upTo := s.After, s.After
	whole := s.Over != "answer" || s.UpTo > 0 && !s.Pull // an answer says at its end what it was
	told := map[oracle.Thing]policy.EventID{}
	seen := map[policy.EventID]bool{}
	for n, f := range s.Frames {
		if !j.meets(where, c, f) {
			continue
		}
		j.rises(where, s, n, before, seen)
		seen[f.ID], before = true, f.ID
		if s.Over == "answer" && f.ID <= c.last && !resync(f) {
			j.late(c, f)
		} else {
			c.take(f)
		}
		if whole = whole && !resync(f); whole {
			upTo = f.ID
		}
		told[Thing(f)] = f.ID
	}
	if s.Over == "answer" && s.UpTo > 0 {
		c.owes = c.owes || s.Pull
		if whole = whole && !s.Pull; whole {
			upTo = s.UpTo
		}
		c.last = max(c.last, s.UpTo)
	}
	j.complete(where, c, at, upTo, told)
	if s.Over == "answer" && whole && s.UpTo > 0 {
		j.tables(where, c, s)
	}
}

// late is an item of an answer below what the client acted on: lost on its way,
// it says nothing in its order. Of other content than the client has it makes it
// pull.
func (j *judgement) late(c *client, f watch.Frame) {
	h, has := c.held[Thing(f)]
	if !toLook(f) && (has == gone(f) || has && h.Fingerprint != f.Fingerprint && h.ID <= f.ID) {
		c.owes = true
	}
}

// rises holds a frame's id against the ones before it in its session. A message to
// pull that begins an answer has the id that was resumed from, where the log has
// it, else one that is below everything.
func (j *judgement) rises(where string, s watch.Session, n int, before policy.EventID, seen map[policy.EventID]bool) {
	f := s.Frames[n]
	if n == 0 && resync(f) {
		if seq, ours := s.After.Seq(j.Base); f.ID < s.After && ours && seq <= j.truth.Head() {
			j.breaks(Ordered, "%s: a message to pull sets it back to %s", where, j.place(f.ID))
		}
		return
	}
	again := resync(f) && f.ID == before // the hub dropped what it held
	if seen[f.ID] && !again {
		j.breaks(Unique, "%s: %s again", where, j.place(f.ID))
	}
	if f.ID <= before && !again && (n > 0 || !s.Live) {
		j.breaks(Ordered, "%s: %s after %s", where, j.place(f.ID), j.place(before))
	}
}

// pullOwed looks for the message to pull where one is owed.
func (j *judgement) pullOwed(where string, s watch.Session) {
	cut := s.UpTo == 0 && (len(s.Frames) == 0 || s.Over == "answer") // an answer says at its end what it was
	if s.Live || cut || !j.truth.MustPull(s.After, s.From, j.Breaks...) {
		return
	}
	if !s.Pull && (len(s.Frames) == 0 || !resync(s.Frames[0])) {
		j.breaks(Notified, "%s: what it missed cannot be known, and the message to pull did not come first", where)
	}
}

// complete looks for what a session left out. Something may be missing when
// something newer of the same thing was told instead: over SSE later, if the
// stream ended before.
func (j *judgement) complete(where string, c *client, at int, upTo policy.EventID, told map[oracle.Thing]policy.EventID) {
	s := c.Sessions[at]
	from := s.After
	if s.Live {
		if len(s.Frames) == 0 {
			return
		}
		from = s.Frames[0].ID
	}
	if _, ours := from.Seq(j.Base); !ours {
		return
	}
	for _, x := range j.truth.Changes(c.Node) {
		if x.ID <= from || x.ID > upTo || told[x.Thing] >= x.ID {
			continue
		}
		if s.Over == "answer" || !c.toldLater(at, x) {
			j.breaks(Complete, "%s: %s of %s (gone: %v) is missing, and %s was told", where, j.place(x.ID), x.Thing, x.Gone, j.place(upTo))
		}
	}
}

// toldLater reports whether a later session tells something newer of the same
// thing, or is a pull.
func (c *client) toldLater(at int, x oracle.Told) bool {
	for _, s := range c.Sessions[at+1:] {
		if s.Over == "pull" || s.Pull {
			return true
		}
		for _, f := range s.Frames {
			if Thing(f) == x.Thing && f.ID > x.ID || resync(f) {
				return true
			}
		}
	}
	return false
}

// tables looks for the message about a table in an answer to a client that enforces
// tables.
func (j *judgement) tables(where string, c *client, s watch.Session) {
	from, ours := s.After.Seq(j.Base)
	upTo, _ := s.UpTo.Seq(j.Base)
	if !c.Tables || !ours || !j.truth.TableMay(c.Node, from, upTo) {
		return
	}
	for _, f := range s.Frames {
		if toLook(f) {
			return
		}
	}
	j.breaks(Notified, "%s: its table may have changed up to %d, and no message about it came", where, upTo)
}

// held compares what a client that has heard everything holds with the facts.
func (j *judgement) held(c *client) {
	want := map[oracle.Thing]oracle.Told{}
	for _, x := range j.truth.Changes(c.Node) {
		if want[x.Thing] = x; !x.Leaves() {
			delete(want, x.Thing)
		}
	}
	for t, f := range c.held {
		x, there := want[t]
		pulled := f.ID == 0
		if !there || pulled && f.Fingerprint != x.Row() || !pulled && (f.Fingerprint != x.Fingerprint || f.Omitted != x.Omitted) {
			j.breaks(Held, "node %s holds %s as %s, the facts say %q", c.Node, t, f.Fingerprint, x.Fingerprint)
		}
		delete(want, t)
	}
	for t := range want {
		if t.Policy != "" { // artifacts may be older than the record
			j.breaks(Held, "node %s lacks %s", c.Node, t)
		}
	}
}
