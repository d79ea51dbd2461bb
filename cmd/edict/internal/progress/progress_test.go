package progress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/internal/test/output"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestShortWorkIsNotShown(t *testing.T) {
	var out output.Buffer
	w := Start(&out, "working", "things", 10)
	w.Add(10)
	w.Stop()
	require.Empty(t, out.String())
}

func TestLongWorkIsToldInLinesWhereThereIsNoTerminal(t *testing.T) {
	var out output.Buffer
	w := Start(&out, "working", "things", 0)
	w.SetTotal(10)
	w.Set(4)
	require.Eventually(t, func() bool { return out.String() != "" }, 20*time.Second, 10*time.Millisecond)
	w.Stop()
	require.Regexp(t, `^working: 4 of 10 things, \d+/s, \d+s left\n$`, out.String())
}
