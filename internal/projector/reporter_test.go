package projector

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

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
