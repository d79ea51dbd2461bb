package relay

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHoldingsAreToldTogetherAndOnce(t *testing.T) {
	var out bytes.Buffer
	h := newHoldings(slog.New(slog.NewTextHandler(&out, nil)), 10*time.Second, false)
	told := func() []string {
		out.Reset()
		h.tell()
		require.False(t, h.waits())
		return strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' })
	}
	for id := range 40 {
		h.note(id, kept)
	}
	h.note(50, kept)
	h.note(60, contested)
	lines := told()
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], "partitions=41 ids=0-39,50")
	require.Contains(t, lines[1], "code=partition_contested partitions=1 ids=60 pause_seconds=10")
	h.note(60, contested)
	h.note(3, open)
	h.note(3, kept)
	require.Empty(t, told(), "nothing changed")
	h.note(3, contested)
	h.note(60, kept)
	require.Len(t, told(), 2)
}

func TestTheGateIsToldOnlyWhenItStaysShut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var out bytes.Buffer
		store := newFakeStore(&fakeLog{})
		h := &hub{store: store, patience: 10 * time.Second, log: slog.New(slog.NewTextHandler(&out, nil))}
		for _, held := range []time.Duration{time.Second, 11 * time.Second} {
			seq := store.Applied() + 1
			store.log.append(event{})
			go func() { time.Sleep(held); store.foldAll() }()
			h.gate(t.Context(), seq)
			require.GreaterOrEqual(t, store.Applied(), seq)
		}
		require.Equal(t, 1, strings.Count(out.String(), "gate shut"))
		require.Equal(t, 1, strings.Count(out.String(), "gate open"))
	})
}
