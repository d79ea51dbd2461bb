package relay

import (
	"bytes"
	"context"
	"maps"
	"slices"
)

// signedBy finds the id of the key that signed a stored envelope, without
// parsing it: the signature stands behind everything that could hold these
// bytes (see cutStored). Empty: it is no envelope of ours.
func signedBy(body []byte) string {
	const name = `"key_id":"`
	i := bytes.LastIndex(body, []byte(name))
	if i < 0 {
		return ""
	}
	id, _, ok := bytes.Cut(body[i+len(name):], []byte{'"'})
	if !ok {
		return ""
	}
	return string(id)
}

// Resign has every message that the node stream retains for a node signed by
// the current key: it asks a sync of the partitions where another key's are
// left, since what another key signed counts as a difference. left is how many
// there are; they are gone once the syncs are done, if those who announce the
// partitions sign with this key. The error is a *NotReadyError before the stream
// is open.
func (r *Relay) Resign(ctx context.Context) (asked []Asked, left int, err error) {
	h := r.hub.Load()
	if h == nil {
		return nil, 0, &NotReadyError{"the node stream is not open yet"}
	}
	state, err := h.stream.State(ctx)
	if err != nil {
		return nil, 0, err
	}
	current := r.keys.Current().KeyID()
	of := map[int]bool{}
	for msgs, err := range h.stream.Read(ctx, h.stream.First(), state.Last, allNodes) {
		if err != nil {
			return nil, 0, err
		}
		for _, m := range msgs {
			if node, _, ok := splitNodeSubject(m.Subject); ok && signedBy(m.Body) != current {
				left++
				of[node.Partition(r.opt.Partitions)] = true
			}
		}
	}
	if ctx.Err() != nil || left == 0 {
		return nil, left, ctx.Err()
	}
	asked, err = r.askSyncs(ctx, h.stream, slices.Sorted(maps.Keys(of)))
	return asked, left, err
}
