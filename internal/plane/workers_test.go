package plane

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/disk"
)

// A worker that has far to fold is seen by the others, with its lag, and wants
// nothing yet: neither a share nor the partitions it was told to publish.
func TestAWorkerThatCatchesUpIsSeenAndPublishesNothing(t *testing.T) {
	for name, told := range map[string][]int{"a share": nil, "told": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			dir := data(t)
			e := startExternal(t, dir)
			opt := e.worker(t, dir)
			opt.Name = "w1"
			one := running(t, opt)
			one.serves(t)

			opt.Data, opt.Name, opt.Announce, opt.farBehind, opt.Relaxed = t.TempDir(), "w2", told, 100, true
			full := disk.NewGuard(disk.Options{Dir: opt.Data, MinFree: math.MaxUint64})
			waits := make(chan struct{})
			go func() { defer close(waits); full.WaitOut() }()
			require.Eventually(t, func() bool { return full.Writable() != nil }, 20*time.Second, time.Millisecond)
			opt.disk = full // nothing is folded before it is released
			ctx, cancel := context.WithCancel(t.Context())
			two, err := Open(ctx, opt)
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() { ended <- two.Run(ctx) }()
			defer func() {
				cancel()
				require.NoError(t, <-ended)
				two.Close()
			}()
			owners := func() (out map[string]int) {
				all, err := one.worker.Partitions()
				require.NoError(t, err)
				out = map[string]int{}
				for _, x := range all {
					out[x.Publisher]++
				}
				return out
			}
			seen := func() bool {
				for _, w := range one.worker.List(folded) {
					if w.Name == "w2" {
						require.Zero(t, w.Applied)
						require.EqualValues(t, folded, w.Lag)
						return true
					}
				}
				return false
			}
			require.Eventually(t, seen, 20*time.Second, time.Millisecond)
			for _, w := range one.worker.Live() {
				if w.Name == "w2" {
					require.False(t, w.Shares)
					require.Empty(t, w.Partitions)
				}
			}
			require.Zero(t, owners()["w2"])
			full.Release()
			<-waits
			want := len(told)
			if told == nil {
				want = 32
			}
			require.Eventually(t, func() bool { return owners()["w2"] == want }, 20*time.Second, time.Millisecond)
		})
	}
}
