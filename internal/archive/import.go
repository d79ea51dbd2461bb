package archive

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// ImportOptions has a useful zero value.
type ImportOptions struct {
	// Restored: nodes may have been sent what the archive does not have. Event ids
	// begin anew, above all that can have been given out, and every node pulls once.
	// Else the log it was exported from is stopped for good, and ids go on.
	Restored bool
	// Origin is called with the new log, before anything is read of it, where the archive
	// begins at an origin: it stores that. It must be set for such an archive.
	Origin func(ctx context.Context, log *streams.Log, o streams.Origin, object io.Reader) error
	// Prove is called with the new log, before anybody can open it; nil: it is not.
	Prove func(ctx context.Context, log *streams.Log) error
	// Passed is called with the sequence that was reached; nil: it is not.
	Passed func(seq uint64)
}

// Import makes a log of the archive, on servers that have none: with the same
// sequences, times and bytes, a new identity, and a witness that has the archive's
// chain hash. The archive is proved before anything is written, and the log, as its
// servers give it back, before it can be opened. After a crash the same call begins
// anew.
func (a *Archive) Import(ctx context.Context, conn *streams.Conn, opt ImportOptions) (*streams.Log, error) {
	e, err := a.Whole(ctx)
	if err != nil {
		return nil, err
	}
	o, begins, err := a.Origin()
	if err != nil {
		return nil, err
	}
	log, err := streams.PutBackLog(ctx, conn, streams.PutBack{
		Partitions: e.Partitions, Base: e.Base, Begins: e.Begins, First: e.First, Last: e.Last, Origin: o.Document,
	}, a.Messages(0))
	if err == nil && begins {
		err = a.putOrigin(ctx, log, opt)
	}
	if err != nil {
		return nil, err
	}
	fault.Pass(fault.ImportStored)
	if opt.Restored {
		if err := log.BeginAnew(ctx, 0); err != nil {
			return nil, err
		}
	}
	if err := a.prove(ctx, log, e, opt); err != nil {
		return nil, err
	}
	if err := witness(ctx, conn, log, e, opt.Restored); err != nil {
		return nil, err
	}
	fault.Pass(fault.ImportProved)
	return log, log.Finish(ctx)
}

// putOrigin has the new log begin with the archive's origin.
func (a *Archive) putOrigin(ctx context.Context, log *streams.Log, opt ImportOptions) error {
	o, ok := log.Origin()
	if !ok {
		return errors.New("import the origin of the log: its servers do not know it")
	}
	r, err := a.OriginObject()
	if err != nil {
		return err
	}
	return errors.Join(opt.Origin(ctx, log, o, r), r.Close())
}

// prove reads the new log and compares it with the archive.
func (a *Archive) prove(ctx context.Context, log *streams.Log, e Extent, opt ImportOptions) error {
	passed := opt.Passed
	if passed == nil {
		passed = func(uint64) {}
	}
	from, links := projector.Beginning(log)
	want := streams.Link{Log: log.ID(), Seq: e.Last, Hash: e.Hash()}
	c, err := projector.Audit(ctx, log, from, e.Last, append(links, want), passed)
	if err != nil {
		return fmt.Errorf("the new log is not what the archive has: %w", err)
	}
	if hash := hex.EncodeToString(c.Hash[:]); hash != e.Chain {
		return fmt.Errorf("the new log is not what the archive has: at %d its chain hash is %.16s, not %.16s", c.Seq, hash, e.Chain)
	}
	if opt.Prove == nil {
		return nil
	}
	return opt.Prove(ctx, log)
}

// witness begins the log's witness where the archive ends.
func witness(ctx context.Context, conn *streams.Conn, log *streams.Log, e Extent, restored bool) error {
	chain, err := streams.OpenChain(ctx, conn)
	if err != nil {
		return err
	}
	_, at, err := chain.Links(ctx)
	if err != nil {
		return err
	}
	_, err = chain.Append(ctx, at, streams.Link{Log: log.ID(), Base: log.Base(), Seq: e.Last, Hash: e.Hash(), Restored: restored})
	return err
}
