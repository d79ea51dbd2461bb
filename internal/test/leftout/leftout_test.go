package leftout_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/leftout"
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
	for _, c := range []struct {
		ci        string
		leave     func(t testing.TB)
		how, says string
	}{
		{"", func(t testing.TB) { leftout.Test(t, "no %s", "disk") }, "skipped", "LEFT OUT: TestIt: no disk\n"},
		{"true", func(t testing.TB) { leftout.Test(t, "no disk") }, "failed", ""},
		{"true", func(t testing.TB) { leftout.Here(t, "no disk") }, "skipped", "LEFT OUT: TestIt: no disk\n"},
		{"true", func(t testing.TB) { leftout.Less(t, errors.New("no fixtures")) }, "", "WITH LESS: TestIt: no fixtures\n"},
	} {
		file := filepath.Join(t.TempDir(), "left-out")
		t.Setenv("CI", c.ci)
		t.Setenv("EDICT_LEFT_OUT", file)
		x := &told{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.leave(x)
		}()
		<-done
		require.Equal(t, c.how, x.ended)
		text, _ := os.ReadFile(file)
		require.Equal(t, c.says, string(text))
	}
}
