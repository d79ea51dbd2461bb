package streams

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
)

// RemakeNodes deletes the stream whose first sequence is first (Nodes.First,
// OtherLogError.First; 0: whichever there is) and opens a new one, whose
// sequences are all above. A stream that another process has remade since is
// opened as it is, made false.
//
// The server deletes a stream by its name, whichever it is by then. So one
// process at a time judges and deletes, under a lock in bucket EDICT_META; the
// others wait, and find what it made. Of a process that dies meanwhile the lock
// is taken after remakePatience.
func RemakeNodes(ctx context.Context, c *Conn, opt NodesOptions, first uint64) (n *Nodes, made bool, err error) {
	b, err := OpenMeta(ctx, c)
	if err != nil {
		return nil, false, fmt.Errorf("remake the node stream: %w", err)
	}
	sent, revision, err := lockRemake(ctx, b, remakePatience)
	if err != nil {
		return nil, false, fmt.Errorf("remake the node stream: lock %s of bucket %s: %w", remakeKey, b.Name(), err)
	}
	held, cancel := context.WithDeadline(ctx, sent.Add(remakeMost))
	defer cancel()
	if err := c.deleteNodes(held, &opt, first); err != nil {
		// The server may act on it yet: the lock stays until it is over.
		return nil, false, fmt.Errorf("remake the node stream: %w", err)
	}
	n, made, err = OpenNodes(held, c, opt)
	// A lock that is not given up is over by itself.
	_ = b.Delete(context.WithoutCancel(ctx), remakeKey, revision)
	return n, made, err
}

// deleteNodes deletes the stream that begins at first, and has opt number the
// next one above it.
func (c *Conn) deleteNodes(ctx context.Context, opt *NodesOptions, first uint64) error {
	info, err := c.streamInfo(ctx, NodesStream)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	have, _ := strconv.ParseUint(info.Config.Metadata[metaFirst], 10, 64)
	if first != 0 && have != first {
		return nil
	}
	opt.Above = max(opt.Above, have, info.State.LastSeq)
	ctx, cancel := c.during(ctx, requestTimeout)
	defer cancel()
	if err := c.js.DeleteStream(ctx, NodesStream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete the old one: %w", err)
	}
	return nil
}

const (
	remakeKey = "remake." + NodesStream
	// remakeMost is how long a process may take that holds the lock, and
	// remakePatience how long others leave it one: what it sent last has been
	// served, or is lost, by then.
	remakeMost     = 20 * time.Second
	remakePatience = 30 * time.Second
)

// lockRemake takes the lock, of one who has it after so long. It counts from
// when it was asked for.
func lockRemake(ctx context.Context, b *Bucket, patience time.Duration) (sent time.Time, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, openPatience+patience)
	defer cancel()
	const look = 50 * time.Millisecond
	self := uuid.NewString()
	var other uint64 // revision of another's lock
	var since time.Time
	for {
		sent = time.Now()
		revision, err = askLock(ctx, b, self, other, sent.Sub(since) > patience)
		if err == nil {
			return sent, revision, nil
		}
		// A bucket that was just made on a cluster may have no leader yet.
		passes := errors.Is(err, ErrWrongSequence) || errors.Is(err, ErrBusy) || errors.Is(err, ErrUnknown)
		if !passes || pause(ctx, look) != nil {
			return sent, 0, err
		}
		value, now, err := lockNow(ctx, b)
		if err == nil && string(value) == self {
			return sent, now, nil // the answer was lost
		}
		if err == nil && now != other {
			other, since = now, time.Now()
		}
	}
}

// askLock makes the lock, or takes the other's that is over.
func askLock(ctx context.Context, b *Bucket, self string, other uint64, over bool) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, openTry)
	defer cancel()
	if other != 0 && over {
		return b.Update(ctx, remakeKey, []byte(self), other, 0)
	}
	return b.Create(ctx, remakeKey, []byte(self), 0)
}

// lockNow is who has the lock; revision 0: nobody.
func lockNow(ctx context.Context, b *Bucket) (value []byte, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTry)
	defer cancel()
	value, revision, err = b.Get(ctx, remakeKey)
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	return value, revision, err
}
