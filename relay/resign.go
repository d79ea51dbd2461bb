package relay

import (
	"bytes"
	"context"
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

// Resigned reports whether every message that the node stream retains for a
// node is signed by the current key. A sync, which Republish asks for, makes it
// so: what another key signed counts as a difference. The error is a
// *NotReadyError before the stream is open.
func (r *Relay) Resigned(ctx context.Context) (bool, error) {
	h := r.hub.Load()
	if h == nil {
		return false, &NotReadyError{"the node stream is not open yet"}
	}
	state, err := h.stream.State(ctx)
	if err != nil {
		return false, err
	}
	current := r.keys.Current().KeyID()
	for msgs, err := range h.stream.Read(ctx, h.stream.First(), state.Last, allNodes) {
		if err != nil {
			return false, err
		}
		for _, m := range msgs {
			if signedBy(m.Body) != current {
				return false, nil
			}
		}
	}
	return ctx.Err() == nil, ctx.Err()
}
