package check

import (
	"fmt"
)

// client is what a node knows while its history is read.
type client struct {
	w        *Watcher
	seq      uint64 // the last one met
	seen     map[uint64]bool
	versions map[string]uint64 // by policy
	held     map[string]Frame  // rows, by policy
}

// watcher judges one client's life.
func (j *judgement) watcher(w *Watcher) {
	c := &client{w: w, seen: map[uint64]bool{}, versions: map[string]uint64{}, held: map[string]Frame{}}
	for i, s := range w.Sessions {
		where := fmt.Sprintf("node %s, %s session %d after %d", w.Node, s.Over, i+1, s.After)
		if s.Broken != "" {
			j.breaks(Readable, "%s: %s", where, s.Broken)
		}
		if s.Over == "pull" {
			c.pull(s)
			continue
		}
		for n := range s.Frames {
			j.frame(where, c, &s, n)
		}
		j.complete(where, c, &s)
		j.word(where, c, &s)
	}
	if w.Settled {
		j.held(c)
	}
}

// pull replaces what the client holds. A process that was further behind may
// answer: what it then tells again is new to who goes on after it.
func (c *client) pull(s Session) {
	c.held = map[string]Frame{}
	for p, f := range s.Rows {
		c.held[p] = f
	}
	if s.After < c.seq {
		clear(c.seen)
		clear(c.versions)
	}
	c.seq = s.After
}

// frame judges one message as the client meets it.
func (j *judgement) frame(where string, c *client, s *Session, n int) {
	f := s.Frames[n]
	if f.Node != c.w.Node {
		j.breaks(Own, "%s: a message of %s at %d", where, f.Node, f.Seq)
		return
	}
	before := s.After
	if n > 0 {
		before = s.Frames[n-1].Seq
	}
	// A word to pull is the first frame and may carry the sequence resumed from;
	// one that answers a sequence of another stream, or beyond the end, carries
	// that stream's.
	resumed := f.Pull && n == 0
	if resumed {
		before = 0
	}
	if c.seen[f.Seq] && !(resumed && f.Seq == s.After) {
		j.breaks(Unique, "%s: sequence %d again", where, f.Seq)
	}
	if f.Seq <= before && !(s.Live && n == 0) {
		j.breaks(Ordered, "%s: sequence %d after %d", where, f.Seq, before)
	}
	c.seq = f.Seq
	if f.Pull {
		return
	}
	c.seen[f.Seq] = true
	if v := c.versions[f.Policy]; f.Version < v || f.Version == v && !j.resigned[versionOf(f)] {
		j.breaks(Rising, "%s: policy %s version %d at %d, after version %d", where, f.Policy, f.Version, f.Seq, v)
	}
	if f.Applied > 0 && f.Applied < f.Version {
		j.breaks(Gated, "%s: version %d is told by a process that stands at %d", where, f.Version, f.Applied)
	}
	c.versions[f.Policy] = max(c.versions[f.Policy], f.Version)
	j.message(where, f)
	if f.tells(noWord) {
		delete(c.held, f.Policy)
	} else {
		c.held[f.Policy] = f
	}
}

// complete looks for what a session left out. A message may be missing when a
// newer one of its row replaced it: that one is looked for in its turn.
func (j *judgement) complete(where string, c *client, s *Session) {
	upTo := s.UpTo
	got := map[uint64]bool{}
	for _, f := range s.Frames {
		got[f.Seq] = true
		upTo = max(upTo, f.Seq)
	}
	from := s.After
	if s.Live && len(s.Frames) > 0 {
		from = s.Frames[0].Seq
	}
	for _, f := range j.stored[c.w.Node] {
		if f.Seq > from && f.Seq <= upTo && !got[f.Seq] && j.newest[row(f)] == f.Seq {
			j.breaks(Complete, "%s: %s version %d at %d is missing, and newer ones came", where, row(f), f.Version, f.Seq)
		}
	}
}

// word looks for the word to pull where one is owed.
func (j *judgement) word(where string, c *client, s *Session) {
	if s.Live || len(s.Frames) == 0 && s.UpTo == 0 {
		return
	}
	upTo := s.UpTo
	pulled := s.Pull
	for _, f := range s.Frames {
		pulled = pulled || f.Pull
		upTo = max(upTo, f.Seq)
	}
	if pulled {
		return
	}
	if s.After < j.First {
		j.breaks(Word, "%s: the stream begins at %d, and no word to pull came", where, j.First)
	}
	for _, m := range j.Marks {
		if m.Partition == j.Partition(c.w.Node) && m.Seq > s.After && m.Seq < upTo {
			j.breaks(Word, "%s: a sync ended at %d, and no word to pull came", where, m.Seq)
		}
	}
}

// held compares what a client that has heard everything holds with the facts.
func (j *judgement) held(c *client) {
	want := map[string]word{}
	for _, r := range j.truth.head.Rows(c.w.Node) {
		want[r.Policy] = wordOf(r)
	}
	for p, f := range c.held {
		w := want[p]
		if pulled := f.Version == 0; pulled && f.Fingerprint != w.row || !pulled && !f.tells(w) {
			j.breaks(Held, "node %s holds policy %s as %s, the facts say %q", c.w.Node, p, f.Fingerprint, w.fingerprint)
		}
		delete(want, p)
	}
	for p := range want {
		j.breaks(Held, "node %s lacks policy %s", c.w.Node, p)
	}
}
