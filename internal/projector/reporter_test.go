package projector

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// writtenRejections keeps the sequences of rejections, in the place of their stream.
type writtenRejections []uint64

func (w *writtenRejections) Write(_ context.Context, r streams.Rejection) error {
	*w = append(*w, r.Seq)
	return nil
}

func TestWhatWasRejectedBeforeTheStartIsOneLine(t *testing.T) {
	p, j := openFresh(t), &journal{}
	reject := func(n int) {
		for range n {
			verdict(t, p, j.raw("edict.log.x.node.a", []byte(`{`)))
		}
	}
	var lines bytes.Buffer
	var to writtenRejections
	r := &Reporter{Store: p, To: &to, Log: slog.New(slog.NewTextHandler(&lines, nil)), Held: 20}
	report := func() []string {
		lines.Reset()
		require.NoError(t, r.report(t.Context()))
		var said []string
		for _, line := range strings.Split(strings.TrimSpace(lines.String()), "\n") {
			_, text, _ := strings.Cut(line, " ") // the time
			said = append(said, text)
		}
		return said
	}

	reject(15)
	require.Equal(t, []string{""}, report(), "the past is not folded whole")
	reject(6)
	require.Equal(t, []string{
		`level=WARN msg="event rejected" seq=21 code=undecodable subject=edict.log.x.node.a`,
		`level=INFO msg="events that the log held at the start are rejected" events=20 seq=20`,
	}, report())
	reject(1)
	require.Equal(t, []string{`level=WARN msg="event rejected" seq=22 code=undecodable subject=edict.log.x.node.a`}, report())
	require.Len(t, to, 22, "producers find all of them")
}

// slowRejections takes a while for each.
type slowRejections time.Duration

func (w slowRejections) Write(context.Context, streams.Rejection) error {
	time.Sleep(time.Duration(w)) // in a bubble, where nobody waits
	return nil
}

func TestABacklogOfRejectionsLeavesTheDiskToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Reporter{To: slowRejections(time.Millisecond)}
		began := time.Now()
		require.NoError(t, r.write(t.Context(), make([]streams.Rejection, reportAtOnce)))
		require.Equal(t, reportAtOnce*time.Millisecond, time.Since(began), "few are there at once")
		began = time.Now()
		require.NoError(t, r.write(t.Context(), make([]streams.Rejection, reportAtOnce+100)))
		require.Equal(t, (reportAtOnce+100*reportShare)*time.Millisecond, time.Since(began))
	})
}

// A write that waits until servers have a leader again takes many seconds; the backlog that
// grew meanwhile must not wait several times as long.
func TestABacklogOfRejectionsDoesNotWaitForAFaultThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Reporter{To: slowRejections(10 * time.Second)}
		began := time.Now()
		require.NoError(t, r.write(t.Context(), make([]streams.Rejection, reportAtOnce+1)))
		require.Equal(t, (reportAtOnce+1)*10*time.Second+longestReportPause, time.Since(began))
	})
}
