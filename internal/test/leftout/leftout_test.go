package leftout

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// told is a test that notes how it ended.
type told struct {
	testing.TB
	ended string
}

func (t *told) Helper()               {}
func (t *told) Name() string          { return "TestIt" }
func (t *told) Log(...any)            {}
func (t *told) Skip(...any)           { t.end("skipped") }
func (t *told) Fatalf(string, ...any) { t.end("failed") }
func (t *told) end(how string)        { t.ended = how; runtime.Goexit() }

func TestWhatIsLeftOutIsNotedAndInCIFails(t *testing.T) {
	defer func(w io.Writer) { notes = w }(notes)
	for _, c := range []struct {
		ci        string
		leave     func(t testing.TB)
		how, says string
	}{
		{"", func(t testing.TB) { Test(t, "no %s", "disk") }, "skipped", "LEFT OUT: TestIt: no disk\n"},
		{"true", func(t testing.TB) { Test(t, "no disk") }, "failed", ""},
		{"true", func(t testing.TB) { Here(t, "no disk") }, "skipped", "LEFT OUT: TestIt: no disk\n"},
		{"", func(t testing.TB) { Here(t, "%v", errors.New("no disk\nno loop")) }, "skipped", "LEFT OUT: TestIt: no disk; no loop\n"},
		{"true", func(t testing.TB) { Less(t, errors.New("no fixtures")) }, "", "WITH LESS: TestIt: no fixtures\n"},
	} {
		var noted bytes.Buffer
		notes = &noted
		t.Setenv("CI", c.ci)
		x := &told{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.leave(x)
		}()
		<-done
		require.Equal(t, c.how, x.ended)
		require.Equal(t, c.says, noted.String())
		require.Equal(t, c.says != "", Noted(noted.String()))
	}
}
