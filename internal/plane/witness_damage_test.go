package plane

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/output"
)

// flipLinks changes a byte of each of these links of a stopped plane's witness,
// and returns how many there are.
func flipLinks(t *testing.T, dir string, which func(i, of int) bool) {
	blk := filepath.Join(dir, chainMessages, "msgs", "1.blk")
	text, err := os.ReadFile(blk)
	require.NoError(t, err)
	var at []int
	for i := 0; ; {
		n := bytes.Index(text[i:], []byte(`"hash":"`))
		if n < 0 {
			break
		}
		at = append(at, i+n)
		i += n + 1
	}
	require.GreaterOrEqual(t, len(at), 3)
	for i, n := range at {
		if which(i, len(at)) {
			text[n+10] ^= 1
		}
	}
	require.NoError(t, os.WriteFile(blk, text, 0o600))
}

// TestALinkThatCannotBeReadIsDoneWithout: the others speak for the log, and of
// none at all the read model does.
func TestALinkThatCannotBeReadIsDoneWithout(t *testing.T) {
	for name, which := range map[string]func(i, of int) bool{
		"the first":  func(i, _ int) bool { return i == 0 },
		"one within": func(i, _ int) bool { return i == 1 },
		"the last":   func(i, of int) bool { return i == of-1 },
		"all":        func(int, int) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			dir := data(t)
			flipLinks(t, dir, which)
			var out output.Buffer
			p := running(t, Options{Data: dir, NATSListen: "none", witnessEvery: 5 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&out, nil))})
			require.NoError(t, p.store.Wait(t.Context(), folded))
			_, err := p.stream.PublishAll(t.Context(), nodes(folded+1, folded+10))
			require.NoError(t, err)
			require.Eventually(t, func() bool { return p.witness.Last() == folded+10 }, 20*time.Second, time.Millisecond, "links are written again")
			require.NoError(t, p.alarm.Raised())
			require.Contains(t, out.String(), "links of the log's witness cannot be read")
		})
	}
}

// TestALogThatNothingVouchesForIsNotTaken: no link can be read, and no read model
// knows the log. It may be another one.
func TestALogThatNothingVouchesForIsNotTaken(t *testing.T) {
	dir := data(t, "store")
	flipLinks(t, dir, func(int, int) bool { return true })
	_, err := Open(t.Context(), Options{Data: dir, NoAPI: true, NATSListen: "none", Relaxed: true})
	requireDamage(t, err, streams.DamageUnwitnessed, 0, 0)
	require.ErrorContains(t, err, "edict log accept")
}
