package integrity

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// aboveLost is how far above the highest sequence known a log begins that is
// made in the place of a lost one, and how far above the highest event id known
// ids go on after any loss: what was sent last, nobody may know any more.
const aboveLost = 1_000_000

// ErrWitnessInUse means that a worker runs, and lengthens the witness.
var ErrWitnessInUse = errors.New("a worker writes to the witness: stop every worker, then accept again")

// Accept makes the log as it is now the truth: filled up to the highest sequence
// known, or made anew above it, with event ids above all that were given out.
// store is a read model of the log, zero: there is none; restored says that the
// log was put back from a backup. The entry in the witness comes last: after a
// crash before it, the same call does it all again.
func (r *Report) Accept(ctx context.Context, conn *streams.Conn, store projector.Identity, restored bool) error {
	if err := r.replace(ctx, conn, store, restored); err != nil {
		return err
	}
	state, err := r.log.State(ctx)
	if err != nil {
		return err
	}
	r.Last, r.links, r.Damage = state.Last, nil, nil
	if err := r.read(ctx); err != nil {
		return err
	}
	if err := r.log.KeepOrigin(ctx); err != nil { // that it goes on from it was just proved
		return err
	}
	if r.chain == nil {
		if r.chain, err = streams.OpenChain(ctx, conn); err != nil {
			return err
		}
	}
	l := streams.Link{Log: r.Log, Base: r.log.Base(), Seq: r.Verified, Accepted: true, Restored: restored}
	if _, err := hex.Decode(l.Hash[:], []byte(r.Hash)); err != nil {
		return err
	}
	if _, err := r.chain.Append(ctx, r.at, l); errors.Is(err, streams.ErrWrongSequence) {
		return ErrWitnessInUse
	} else if err != nil {
		return err
	}
	return r.readWitness(ctx, conn)
}

// replace gives up what the log lost: no sequence and no event id means two
// things afterwards.
func (r *Report) replace(ctx context.Context, conn *streams.Conn, store projector.Identity, restored bool) (err error) {
	high, id := max(r.high, r.Last, store.Seq), r.highID
	if store.Seq > 0 {
		id = max(id, store.LastID())
	}
	if place, _ := id.Seq(0); place > 0 {
		id = policy.EndOf(place, aboveLost)
	}
	if r.log == nil {
		if r.log, err = streams.OpenLog(ctx, conn, streams.LogOptions{Above: high + aboveLost, AboveID: id}); err != nil {
			return err
		}
		r.Log, r.First = r.log.ID(), r.log.First()
		return nil
	}
	if err := r.fill(ctx, high); err != nil {
		return err
	}
	if restored {
		return r.log.BeginAnew(ctx, id)
	}
	return r.log.Rebase(ctx, id)
}

func (r *Report) fill(ctx context.Context, to uint64) error {
	state, err := r.log.State(ctx)
	if err != nil || state.Last >= to {
		return err
	}
	from := state.Last
	at, end := r.begin("filling the log", "sequences", int64(to-from))
	defer end()
	return r.log.Fill(ctx, to, func(seq uint64) { at(int64(seq - from)) })
}
