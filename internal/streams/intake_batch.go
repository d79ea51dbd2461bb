package streams

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/wire"
)

const (
	// A project of producers has so many batches open at a time, each of up to intakeBytes. The
	// server has one number for all who append, and keeps what is open on its disk.
	intakeOpen = 8
	// intakeOpenAll bounds those of all projects, and embeddedOpenBatches what the server takes:
	// some are left for the plane.
	intakeOpenAll       = 900
	embeddedOpenBatches = 1000
)

// openBatch is one that was begun, and not committed yet.
type openBatch struct {
	messages int
	bytes    int
	latest   time.Time // when a message of it was passed on
}

// batchStep is what a message is to the batch that it names.
type batchStep int

const (
	batchNone batchStep = iota // it names none
	batchBegins
	// It goes on with one that was begun. The server does not write to its log for it.
	batchGoesOn
	batchEnds    // it commits one
	batchUnknown // of one that is not open: the server says so
)

// step is what a message is to its batch, and which.
func (l *lane) step(m *nats.Msg) (step batchStep, id string) {
	if id = m.Header.Get(headerBatchID); id == "" {
		return batchNone, ""
	}
	if m.Header[headerBatchCommit] != nil {
		return batchEnds, id
	}
	seq, err := strconv.ParseUint(m.Header.Get(headerBatchSeq), 10, 64) // as the server reads it: 01 is 1
	switch {
	case err == nil && seq == 1:
		return batchBegins, id
	case l.open[id] != nil:
		return batchGoesOn, id
	default:
		return batchUnknown, id
	}
}

// admit keeps count of open batches, and reports whether a message is to be passed on. If not,
// it is refused.
func (in *intake) admit(l *lane, m *nats.Msg, step batchStep, id string, now time.Time) bool {
	switch step {
	case batchBegins:
		if l.open[id] == nil && (len(l.open) >= intakeOpen || in.open >= intakeOpenAll) {
			in.refuse(l, m, apiError{http.StatusTooManyRequests, codeBatchBusy, "more batches open than are taken: commit one, or wait until one is forgotten that has no message for ten seconds"})
			return false
		}
		in.end(l, id) // the server ends both
		in.open++
		l.open[id] = &openBatch{messages: 1, bytes: weight(m), latest: now}
	case batchGoesOn:
		b := l.open[id]
		b.messages++
		b.bytes += weight(m)
		b.latest = now
		if b.messages > in.batch || b.bytes > intakeBytes {
			in.refuse(l, m, apiError{http.StatusBadRequest, codeBatchTooLarge, fmt.Sprintf("a batch of more than %d events or %d MiB: divide it", in.batch, intakeBytes>>20)})
			in.abandon(m, b)
			in.end(l, id)
			return false
		}
	case batchEnds:
		in.end(l, id)
	case batchNone, batchUnknown:
	}
	return true
}

// end has a batch be open no longer.
func (in *intake) end(l *lane, id string) {
	if l.open[id] != nil {
		delete(l.open, id)
		in.open--
	}
}

// abandon has the server drop a batch, by a message that cannot be its next one.
func (in *intake) abandon(m *nats.Msg, b *openBatch) {
	out := nats.NewMsg(wire.PrefixLog + m.Subject[len(prefixIntake):])
	out.Header[headerBatchID] = []string{m.Header.Get(headerBatchID)}
	out.Header[headerBatchSeq] = []string{strconv.Itoa(b.messages + 1)}
	_ = in.nc.PublishMsg(out)
}

// giveUpBatches forgets what had no message since a time, as the server does.
func (in *intake) giveUpBatches(l *lane, before time.Time) {
	for id, b := range l.open {
		if b.latest.Before(before) {
			in.end(l, id)
		}
	}
}
