package projector

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/edictdev/edict/internal/streams"
)

// FarBehind is how many events a store must lack for Rebuild to be worth it. Rebuild
// leaves out edges; whoever needs them resumes.
const FarBehind = 50_000

// A rebuild folds so many events, or bodies of so many bytes, in one batch, and
// has as many prepared ahead.
const (
	bulkEvents = 50_000
	// briefBulk are those of a brief store, which is waited for: what is read next is
	// decoded beside the fold of what was.
	briefBulk = 8_000
	bulkBytes = 32 << 20
	bulkAhead = 24 // batches of the log
)

// Rebuild folds log up to and including until, as Run does, into a store that
// is far behind. Batches are large and enter the store as sorted tables, and a Feed is handed no edges. A
// crash leaves the store at the end of some batch, from where Run and Rebuild
// go on alike. The log must reach until. Rebuild must not be called while Run
// runs.
func (p *Projector) Rebuild(ctx context.Context, log Log, until uint64) error {
	if err := streams.UntilAnswered(ctx, func() error { return p.Verify(ctx, log) }); err != nil {
		return err
	}
	if until < p.next() {
		return nil
	}
	reading, cancel := context.WithCancel(ctx)
	batches := make(chan prepared, bulkAhead)
	ahead := newBudget(preparedBytes)
	go func() {
		defer close(batches)
		prepareAll(reading, log, p.newVerifier(), batches, ahead)
	}()
	err := p.bulkEach(batches, ahead, until)
	cancel()
	for range batches { // its reader is to have ended, too
	}
	if err == nil && p.Applied() < until {
		err = ctx.Err()
	}
	return p.sound(err)
}

// bulkEach gathers what was prepared into large batches and writes them, until
// the store stands at until.
func (p *Projector) bulkEach(batches <-chan prepared, ahead budget, until uint64) error {
	var b bulk
	var gathered [][]entry
	events, size := 0, 0
	for next := range batches {
		ahead.give(next.taken)
		entries := next.entries
		if n := len(entries); n > 0 && entries[n-1].msg.Seq > until {
			entries = entries[:max(0, n-int(entries[n-1].msg.Seq-until))] //nolint:gosec // sequences follow each other
		}
		if len(entries) > 0 {
			gathered = append(gathered, entries)
			events += len(entries)
			size += weigh(entries)
		}
		done := len(entries) > 0 && entries[len(entries)-1].msg.Seq == until
		if done || next.err != nil || events >= p.opt.bulk || size >= bulkBytes {
			if err := p.writeBulk(&b, gathered...); err != nil {
				return err
			}
			gathered, events, size = nil, 0, 0
		}
		if done || next.err != nil {
			return next.err
		}
	}
	return nil
}

// writeBulk folds batches and puts what comes of them into the store at once.
func (p *Projector) writeBulk(b *bulk, batches ...[]entry) error {
	if len(batches) == 0 {
		return nil
	}
	w := written{began: time.Now()}
	err := func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.failed != nil {
			return p.failed
		}
		b.reset()
		var changes Batch
		changes, w.made, p.failed = p.foldAll(b, bulkFold, unbounded, batches...)
		if p.failed == nil {
			p.failed = b.ingest(p)
		}
		if p.failed == nil {
			w.at = p.cursor.reached()
			p.hand(changes)
		}
		return p.failed
	}()
	if err != nil {
		return err
	}
	return p.acknowledge(w)
}

// bulk is a batch that becomes one sorted table.
type bulk struct{ sorted }

// ingest writes the table beside the store and moves it in.
func (b *bulk) ingest(p *Projector) error {
	path := filepath.Join(p.dir, "rebuild.table")
	file, err := p.fs.Create(path, "rebuild")
	if err != nil {
		return fmt.Errorf("make a table of the rebuild: %w", err)
	}
	table := sstable.NewWriter(objstorageprovider.NewFileWritable(file), p.pebble.MakeWriterOptions(0, p.db.TableFormat()))
	if err := b.into(table.Set, table.Delete); err != nil {
		return errors.Join(fmt.Errorf("write a table of the rebuild: %w", err), table.Close())
	}
	if err := table.Close(); err != nil {
		return fmt.Errorf("write a table of the rebuild: %w", err)
	}
	if err := p.db.Ingest(context.Background(), []string{path}); err != nil {
		return fmt.Errorf("add a table of the rebuild to the store: %w", err)
	}
	return nil
}
