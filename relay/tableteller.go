package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// TableWatch says which nodes' tables changed and not their rows. One goroutine
// uses it.
type TableWatch interface {
	// Look looks at nodes of the partitions that told names, each with the log
	// sequence up to which its nodes need no word, and returns those to be told of
	// what events up to seq did.
	Look(told map[int]uint64, partitions int) (seq uint64, changed []policy.NodeID, err error)
	// Since are nodes of a partition whose tables may have changed above a sequence.
	Since(partition int, seq uint64) []policy.NodeID
}

// Times of the teller: how long it may be behind with marks that name nobody,
// how long it rests for each second of looking, and when it tries again.
const (
	tableQuiet = 10 * time.Second
	tableRest  = 4
	tableRetry = time.Second
)

// tableTeller writes table marks for the partitions that this process
// announces. A mark takes the place of the one that was read, or is refused, so
// two processes that both believe never tell past each other.
type tableTeller struct {
	stream     Stream
	store      Store
	board      *board
	watch      TableWatch
	owner      string
	logID      string
	partitions int
	log        *slog.Logger

	own     map[int]*telling
	missed  map[int]bool // the watch must look once without them
	quietAt time.Time
}

// telling is one partition.
type telling struct {
	mark    tableMark
	at      uint64 // its sequence
	told    uint64 // log events up to here need no word
	pending map[policy.NodeID]bool
}

// Run tells until ctx ends.
func (t *tableTeller) Run(ctx context.Context) error {
	t.own, t.missed = map[int]*telling{}, map[int]bool{}
	for ctx.Err() == nil {
		changed := t.store.Changed()
		began := time.Now()
		err := t.round(ctx)
		if err != nil && ctx.Err() == nil {
			t.log.Warn("changes of tables could not be told; trying again", "error", err)
			sleep(ctx, tableRetry)
			continue
		}
		sleep(ctx, tableRest*time.Since(began))
		if len(t.missed) > 0 {
			continue
		}
		timer := time.NewTimer(tableQuiet)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// round looks once and writes what there is to tell.
func (t *tableTeller) round(ctx context.Context) error {
	if err := t.take(ctx); err != nil {
		return err
	}
	told := make(map[int]uint64, len(t.own))
	for p, x := range t.own {
		told[p] = x.told
	}
	seq, changed, err := t.watch.Look(told, t.partitions)
	if err != nil {
		return fmt.Errorf("look at tables: %w", err)
	}
	for _, id := range changed {
		if x := t.own[id.Partition(t.partitions)]; x != nil {
			x.pending[id] = true
		}
	}
	return t.tell(ctx, seq)
}

// take notes which partitions are this process's now, and reads how far those
// that are new were told.
func (t *tableTeller) take(ctx context.Context) error {
	var wanted []int
	for p := range t.partitions {
		f := t.board.fence(p)
		mine := f.Owner == t.owner && f.Log == t.logID && f.Mode == Follow
		switch {
		case !mine:
			delete(t.own, p)
		case t.own[p] == nil && !t.missed[p]:
			wanted = append(wanted, p)
		}
	}
	clear(t.missed)
	if len(wanted) == 0 {
		return nil
	}
	msgs, _, err := t.stream.Last(ctx, 0, allSyncs, allDays)
	if err != nil && !errors.Is(err, streams.ErrNotFound) {
		return fmt.Errorf("read table marks: %w", err)
	}
	found, synced := map[int]placedMark{}, map[int]uint64{}
	for _, m := range msgs {
		if p, ok := numbered(m.Subject, tablePrefix, t.partitions); ok {
			if found[p], err = readTableMark(m); err != nil {
				return err
			}
		} else if p, ok := numbered(m.Subject, syncPrefix, t.partitions); ok {
			synced[p] = needs(m) // a sync makes everybody pull
		}
	}
	for _, p := range wanted {
		m := found[p]
		x := &telling{mark: m.tableMark, at: m.at, told: max(m.Seq, synced[p]), pending: map[policy.NodeID]bool{}}
		x.mark.Log = t.logID
		if t.store.Applied() >= x.told { // else the next round
			t.own[p] = x
		}
	}
	return nil
}

// due is what one partition has to say.
type due struct {
	partition int
	*telling
	next tableMark
}

// tell writes a mark for each partition that has somebody to name, and now and
// then for the others, so that who takes them over need not name everybody.
func (t *tableTeller) tell(ctx context.Context, seq uint64) error {
	quiet := time.Since(t.quietAt) >= tableQuiet
	if quiet {
		t.quietAt = time.Now()
	}
	var dues []due
	for p, x := range t.own {
		if seq < x.told || len(x.pending) == 0 && (!quiet || len(t.watch.Since(p, x.told)) == 0) {
			continue
		}
		names := slices.Sorted(maps.Keys(x.pending))
		dues = append(dues, due{p, x, x.mark.next(x.at, seq, names)})
	}
	slices.SortFunc(dues, func(a, b due) int { return cmp.Compare(a.partition, b.partition) })
	for batch := range slices.Chunk(dues, t.stream.MaxBatch()) {
		if err := t.write(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// write stores marks together, or one by one where one of them is refused. A
// partition whose mark is not known to stand is taken anew.
func (t *tableTeller) write(ctx context.Context, dues []due) error {
	if len(dues) == 0 {
		return nil
	}
	msgs := make([]streams.Outgoing, len(dues))
	for i, d := range dues {
		msgs[i] = d.next.message(d.partition, d.at)
	}
	first, err := t.stream.PublishBatch(ctx, msgs)
	switch {
	case err == nil:
		for i, d := range dues {
			d.mark, d.at, d.told, d.pending = d.next, first+uint64(i), d.next.Seq, map[policy.NodeID]bool{}
		}
		return nil
	case len(dues) > 1 && (errors.Is(err, streams.ErrWrongSequence) || errors.Is(err, streams.ErrTooLarge)):
		var all error
		for i := range dues {
			all = errors.Join(all, t.write(ctx, dues[i:i+1]))
		}
		return all
	}
	for _, d := range dues {
		delete(t.own, d.partition)
		t.missed[d.partition] = true
	}
	if errors.Is(err, streams.ErrWrongSequence) {
		return nil // another process told more
	}
	return fmt.Errorf("write table marks: %w", err)
}
