package progress

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a bytes.Buffer for many goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestShortWorkIsNotShown(t *testing.T) {
	var out buffer
	w := Start(&out, "working", "things", 10)
	w.Add(10)
	w.Stop()
	require.Empty(t, out.String())
}

func TestLongWorkIsToldInLinesWhereThereIsNoTerminal(t *testing.T) {
	var out buffer
	w := Start(&out, "working", "things", 0)
	w.SetTotal(10)
	w.Set(4)
	require.Eventually(t, func() bool { return out.String() != "" }, 20*time.Second, 10*time.Millisecond)
	w.Stop()
	require.Regexp(t, `^working: 4 of 10 things, \d+/s, \d+s left\n$`, out.String())
}
