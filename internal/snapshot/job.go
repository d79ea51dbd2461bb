package snapshot

import (
	"errors"

	"github.com/edictdev/edict/internal/compiler/datapath"
)

// job is a computation of tables on its way.
type job struct {
	*turn
	// allowed is how many steps it may still take; below 0: each table what a table
	// may.
	allowed int
}

// errAllowance: a table would take more steps than its job may.
var errAllowance = errors.New("the table takes more work than is allowed here")

// work is that of one table.
func (t *Tables) work(j *job) *datapath.Work {
	return datapath.NewWork(t.steps(j), j.proceed)
}

// worked takes what a table took from what its job may.
func (t *Tables) worked(j *job, w *datapath.Work, err error) error {
	t.mu.Lock()
	t.spent += uint64(w.Steps())
	t.mu.Unlock()
	if j.allowed < 0 {
		return err
	}
	was := j.allowed
	j.allowed = max(0, j.allowed-w.Steps())
	var work *datapath.WorkError
	if errors.As(err, &work) && was < t.opt.Budget() {
		return errAllowance
	}
	return err
}
