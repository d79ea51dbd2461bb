package api

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

var loudProject, quietProject = uuid.UUID{1}, uuid.UUID{2}

// entered are writes of a project that ask for a turn, each until it is let go.
type entered struct {
	l     *lanes
	ctx   context.Context
	n     atomic.Int64
	leave chan func()
}

func (e *entered) under() int { return int(e.n.Load()) }

func (e *entered) write(project uuid.UUID, n int) {
	for range n {
		go func() {
			leave, err := e.l.enter(e.ctx, project)
			if err == nil {
				e.n.Add(1)
				e.leave <- func() { e.n.Add(-1); leave() }
			}
		}()
		synctest.Wait()
	}
}

// end ends one of those that are under way, the first.
func (e *entered) end() {
	(<-e.leave)()
	synctest.Wait()
}

func TestAProjectThatWritesMuchStandsBeforeNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newLanes(time.Now)
		loud := &entered{l: l, ctx: ctx, leave: make(chan func(), 100)}
		loud.write(loudProject, 20)
		require.Equal(t, 20, loud.under(), "alone it has as many as it likes")

		quiet := &entered{l: l, ctx: ctx, leave: make(chan func(), 100)}
		quiet.write(quietProject, 1)
		require.Equal(t, 1, quiet.under(), "the other waits for nothing here")
		loud.write(loudProject, 20)
		require.Equal(t, 20, loud.under(), "beside another its further ones wait")
		for range 18 {
			loud.end()
		}
		require.Equal(t, laneWidth, loud.under())
		for range 5 {
			loud.end()
			require.Equal(t, laneWidth, loud.under(), "one after the other")
		}
		quiet.write(quietProject, 5)
		require.Equal(t, laneWidth, quiet.under())
		for range 6 {
			quiet.end()
		}
		require.Zero(t, quiet.under())
		loud.end()
		require.Equal(t, laneWidth, loud.under(), "the other wrote lately")
		time.Sleep(lately)
		loud.end()
		require.Equal(t, 15, loud.under(), "the other is gone: all that wait may go")

		quiet.write(quietProject, 1)
		loud.write(loudProject, 3)
		cancel() // those that wait leave no trace
		synctest.Wait()
		for loud.under() > 0 {
			loud.end()
		}
		quiet.end()
		loud.ctx = t.Context()
		loud.write(loudProject, laneWidth)
		require.Equal(t, laneWidth, loud.under())
		loud.write(uuid.Nil, 3)
		require.Equal(t, laneWidth+3, loud.under(), "what is of no project waits for none")
	})
}
