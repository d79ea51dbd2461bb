package snapshot

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a tenth of the time of these tests is collecting garbage
	os.Exit(m.Run())
}
