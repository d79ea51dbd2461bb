package relay

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
	"github.com/google/uuid"
)

// comparison is one reading of the node stream against the rows at one log
// sequence. It serves every partition that is being synced, and is kept, with
// its outbox, until the last of them is done with it.
type comparison struct {
	rows   projector.SyncRows
	source Outbox
	users  atomic.Int32
	told   atomic.Int32   // of the partitions, those whose differences all are
	after  func(told int) // called once nobody needs it; nil: nobody wants to know
}

// syncing is a comparison's result for one partition: what the stream says
// otherwise than the rows do, ascending by key.
type syncing struct {
	of    *comparison
	diffs []announcement
}

// seq is S: the sequence whose rows were compared, and the version of every
// difference.
func (s *syncing) seq() uint64 { return s.of.rows.Seq }

func (s *syncing) release() { s.of.drop() }

func (c *comparison) drop() {
	if c.users.Add(-1) == 0 {
		c.source.Close() // nothing was written through it
		if c.after != nil {
			c.after(int(c.told.Load()))
		}
	}
}

// rest are the differences still to be told, given the fence that stands.
// Before the first batch of this sync the fence may name a position of an
// earlier life of the partition, which says nothing about these differences.
func (s *syncing) rest(stands Fence) []announcement {
	if stands.Mode != Sync {
		return s.diffs
	}
	i := sort.Search(len(s.diffs), func(i int) bool { return s.diffs[i].key.Compare(stands.After) > 0 })
	return s.diffs[i:]
}

// compare starts the sync of ps, whose claims stand: one scan of the stream up
// to the last of their fences. Messages of an owner that took one of ps since
// may be among them; its fence will refuse what is made of that.
func compare(ctx context.Context, stream Stream, store Store, ps []*partition, partitions int, keyID string) error {
	ids := make([]int, len(ps))
	var upTo, least uint64
	for i, p := range ps {
		ids[i] = p.id
		upTo = max(upTo, p.fence.Seq)
		least = max(least, p.fence.After.Seq)
	}
	rows, source := store.SyncRows(ids)
	c := &comparison{rows: rows, source: source}
	c.users.Add(1)
	defer c.drop()
	if rows.Seq < least {
		return fmt.Errorf("rows at %d are older than what is announced, %d", rows.Seq, least)
	}
	d := newDifference(c.rows, source, ids, partitions, keyID)
	for msgs, err := range stream.Read(ctx, stream.First(), upTo, allNodes) {
		if err != nil {
			return fmt.Errorf("read the node stream up to %d: %w", upTo, err)
		}
		for _, m := range msgs {
			d.told(m)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	diffs := d.untold()
	for _, p := range ps {
		c.users.Add(1)
		p.sync = &syncing{of: c, diffs: diffs[p.id]}
		p.need = false
	}
	return nil
}

// difference collects what the stream says otherwise than the rows.
type difference struct {
	rows       projector.SyncRows
	partitions int
	wanted     map[int]bool
	first      []int  // of rows.Nodes[i]: index of its first row in said
	said       []bool // rows, in order of node and policy: the stream says the same
	saidOf     map[artifactOf]bool
	source     Outbox
	keyID      string                          // what another key signed is told again
	spoken     map[compiler.Fingerprint]spoken // of rows, as they are told
	diffs      map[int][]announcement
}

func newDifference(rows projector.SyncRows, source Outbox, ids []int, partitions int, keyID string) *difference {
	d := &difference{
		rows: rows, partitions: partitions, wanted: map[int]bool{}, diffs: map[int][]announcement{},
		source: source, keyID: keyID, spoken: map[compiler.Fingerprint]spoken{}, saidOf: map[artifactOf]bool{},
	}
	for _, id := range ids {
		d.wanted[id] = true
	}
	n := 0
	d.first = make([]int, len(rows.Nodes))
	for i, node := range rows.Nodes {
		d.first[i] = n
		n += len(node.Rows)
	}
	d.said = make([]bool, n)
	return d
}

// told takes the last message of one subject. A missing message and a
// tombstone both say that there is no row, so an expired tombstone changes
// nothing.
func (d *difference) told(m streams.Message) {
	node, name, ok := splitNodeSubject(m.Subject)
	if !ok || !d.wanted[node.Partition(d.partitions)] {
		return
	}
	if name, ok := strings.CutPrefix(name, artifactPrefix); ok {
		d.toldOf(node, name, m.Body)
		return
	}
	id, err := uuid.Parse(name)
	if err != nil {
		return // nothing of ours
	}
	says, known := spokenIn(m.Body)
	known = known && signedBy(m.Body) == d.keyID
	if i, j, has := d.row(node, id); has {
		if want, ok := d.speak(d.rows.Nodes[i].Rows[j].Fingerprint); known && ok && says == want {
			d.said[d.first[i]+j] = true
		}
		return
	}
	if !known || says != (spoken{compiler.Empty.Fingerprint, 0}) {
		d.add(node, announcement{
			key:         Key{d.rows.Seq, id.String(), node},
			policy:      id,
			revision:    d.rows.Heads[id],
			fingerprint: compiler.Empty.Fingerprint,
			time:        d.rows.Time,
			gone:        true,
		})
	}
}

// row finds the row of a node and a policy.
func (d *difference) row(node policy.NodeID, id uuid.UUID) (i, j int, ok bool) {
	if i, ok = d.node(node); !ok {
		return 0, 0, false
	}
	j, ok = slices.BinarySearchFunc(d.rows.Nodes[i].Rows, id, func(r projector.Row, id uuid.UUID) int {
		return bytes.Compare(r.Policy[:], id[:])
	})
	return i, j, ok
}

func (d *difference) node(node policy.NodeID) (i int, ok bool) {
	return slices.BinarySearchFunc(d.rows.Nodes, node, func(n projector.SyncNode, id policy.NodeID) int {
		return strings.Compare(string(n.ID), string(id))
	})
}

// untold adds the rows that the stream does not say and returns all
// differences per partition, ascending by key.
func (d *difference) untold() map[int][]announcement {
	for i, node := range d.rows.Nodes {
		d.untoldOf(node)
		for j, r := range node.Rows {
			if d.said[d.first[i]+j] || fault.Sometimes(fault.ForgottenDifference) {
				continue
			}
			d.add(node.ID, announcement{
				key:         Key{d.rows.Seq, r.Policy.String(), node.ID},
				policy:      r.Policy,
				revision:    r.Revision,
				fingerprint: r.Fingerprint,
				time:        d.rows.Time,
			})
		}
	}
	for _, diffs := range d.diffs {
		slices.SortFunc(diffs, func(a, b announcement) int { return a.key.Compare(b.key) })
	}
	return d.diffs
}

func (d *difference) add(node policy.NodeID, a announcement) {
	p := node.Partition(d.partitions)
	d.diffs[p] = append(d.diffs[p], a)
}

// splitNodeSubject takes edict.node.<node>.<name> apart.
func splitNodeSubject(subject string) (node policy.NodeID, name string, ok bool) {
	rest, ok := strings.CutPrefix(subject, nodePrefix)
	if !ok {
		return "", "", false
	}
	id, name, ok := strings.Cut(rest, ".")
	return policy.NodeID(id), name, ok
}

// spoken is what an announcement says of a row: the part of it that the node
// contract can express, and how many rules that leaves out.
type spoken struct {
	fingerprint compiler.Fingerprint
	omitted     int
}

// speak is how the row of a fingerprint is announced. Not ok means: the read
// model lacks its payload, which the announcement will report.
func (d *difference) speak(fp compiler.Fingerprint) (spoken, bool) {
	if s, known := d.spoken[fp]; known {
		return s, true
	}
	payload, err := d.source.Payload(fp)
	if err != nil {
		return spoken{}, false
	}
	plain, omitted := policy.PlainPayload(payload)
	s := spoken{fp, omitted}
	if omitted > 0 {
		s.fingerprint = compiler.FingerprintOf(plain)
	}
	d.spoken[fp] = s
	return s, true
}

// spokenIn is what a stored envelope says. Not known means: announce again.
func spokenIn(body []byte) (s spoken, known bool) {
	if s.fingerprint, known = fingerprintOf(body); !known {
		return s, false
	}
	if _, rest, ok := bytes.Cut(body, []byte(`,"rules_omitted":`)); ok {
		digits := rest[:max(0, bytes.IndexAny(rest, ",}"))]
		var err error
		s.omitted, err = strconv.Atoi(string(digits))
		return s, err == nil
	}
	return s, true
}

// fingerprintOf finds the fingerprint in a stored envelope without parsing its
// rules: no value before it can hold these bytes.
func fingerprintOf(body []byte) (fp compiler.Fingerprint, known bool) {
	_, rest, ok := bytes.Cut(body, []byte(`"fingerprint":"`))
	const size = 44 // base64 of 32 bytes
	if !ok || len(rest) < size {
		return fp, false
	}
	var raw [33]byte // DecodedLen counts the padding
	n, err := base64.StdEncoding.Decode(raw[:], rest[:size])
	if err != nil || n != len(fp) {
		return fp, false
	}
	copy(fp[:], raw[:])
	return fp, true
}
