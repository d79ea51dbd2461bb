package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// liveModel is a worker's read model that a replay is held against.
type liveModel interface {
	// seq is where it stood when it was opened, digest that of then.
	seq() uint64
	digest() string
	// facts are those of now, and the sequence they stand for.
	facts(ctx context.Context, node string) (uint64, iter.Seq2[projector.Fact, error], error)
	String() string
	close()
}

// openLive opens the read model of the running plane, or of the stopped one.
func openLive(ctx context.Context, f replayFlags, c *client.Client, src *logSource) (liveModel, error) {
	if f.log == "" {
		status, err := c.Status(ctx, true)
		if err == nil {
			err = logOfPlane(c, status, src.log)
		}
		return &remoteModel{c, status.Applied, status.Digest}, err
	}
	dir := datadir.Dir(f.log).Store()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Failed(cli.Unreadable, "--log %s holds no read model to verify: %v", f.log, err)
	}
	store, err := projector.Open(dir, src.storeOptions(math.MaxUint64))
	if err != nil {
		return nil, err
	}
	d, err := store.Digest(ctx)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &storedModel{store, dir, d}, nil
}

type remoteModel struct {
	c       *client.Client
	applied uint64
	sum     string
}

func (m *remoteModel) seq() uint64    { return m.applied }
func (m *remoteModel) digest() string { return m.sum }
func (m *remoteModel) String() string { return "the plane at " + m.c.Address() }
func (m *remoteModel) close()         {}

func (m *remoteModel) facts(ctx context.Context, node string) (uint64, iter.Seq2[projector.Fact, error], error) {
	seq, facts, err := m.c.Facts(ctx, node)
	return seq, func(yield func(projector.Fact, error) bool) {
		for f, err := range facts {
			if !yield(projector.Fact{Kind: f.Kind, Key: f.Key, Values: f.Values}, err) {
				return
			}
		}
	}, err
}

type storedModel struct {
	store *projector.Projector
	dir   string
	at    projector.Digest
}

func (m *storedModel) seq() uint64    { return m.at.Seq }
func (m *storedModel) digest() string { return hex.EncodeToString(m.at.Sum[:]) }
func (m *storedModel) String() string { return "the stopped plane's read model " + m.dir }
func (m *storedModel) close()         { _ = m.store.Close() } // nothing was written

func (m *storedModel) facts(_ context.Context, node string) (uint64, iter.Seq2[projector.Fact, error], error) {
	seq, facts := m.store.Facts(policy.NodeID(node))
	return seq, facts, nil
}

// verify holds a replay against the live read model.
func (a replayCommands) verify(ctx context.Context, live liveModel, r *snapshot.Replayed, result snapshot.Result) error {
	if live.digest() == result.Digest {
		if a.sitsThere(a.stdout) {
			return nil // a sentence says it
		}
		if _, remote := live.(*remoteModel); remote {
			fmt.Fprintf(a.stderr, "equal to the live plane: %s, at sequence %d\n", live, result.Seq)
		} else {
			fmt.Fprintf(a.stderr, "equal: %s, at sequence %d\n", live, result.Seq)
		}
		return nil
	}
	diff, seq, err := a.firstDifference(ctx, live, r, "")
	if err == nil && diff != nil && diff.Node() != "" {
		if row, at, rowErr := a.firstDifference(ctx, live, r, diff.Node()); rowErr == nil && row != nil {
			diff, seq = row, at
		}
	}
	const cure = "its read model is damaged; move its store directory away and let it be rebuilt"
	switch {
	case err != nil:
		return cli.Failed(cli.Differs, "at sequence %d %s has digest %s, not %s; in what they differ cannot be said: %v: %s",
			result.Seq, live, live.digest(), result.Digest, err, cure)
	case diff == nil:
		return cli.Failed(cli.Differs, "at sequence %d %s had digest %s, not %s; at %d they are equal again: %s",
			result.Seq, live, live.digest(), result.Digest, seq, cure)
	}
	return cli.Failed(cli.Differs, "%s differs from its log at sequence %d. The first difference: %s: %s", live, seq, diff, cure)
}

// firstDifference takes the replay to where the live read model stands by now
// and compares: everything, or the rows of a node.
func (a replayCommands) firstDifference(ctx context.Context, live liveModel, r *snapshot.Replayed, node string) (*snapshot.Difference, uint64, error) {
	seq, theirs, err := live.facts(ctx, node)
	if err != nil {
		return nil, seq, err
	}
	if err := a.foldTo(ctx, r, seq); err != nil {
		for range theirs { // lets go of what it holds
			break
		}
		return nil, seq, err
	}
	_, ours := r.Store().Facts(policy.NodeID(node))
	if node != "" {
		theirs, ours = rowsAlone(theirs), rowsAlone(ours)
	}
	diff, err := snapshot.Compare(theirs, ours)
	return diff, seq, err
}

// rowsAlone leaves out the node itself.
func rowsAlone(all iter.Seq2[projector.Fact, error]) iter.Seq2[projector.Fact, error] {
	return func(yield func(projector.Fact, error) bool) {
		for f, err := range all {
			if (err != nil || f.Kind == projector.FactRow) && !yield(f, err) {
				return
			}
		}
	}
}
