package archive

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// TestALineThatNeverEndsTakesLittleMemory: a few kilobytes inflate to gigabytes. The bound of
// an event is that of a reader that takes less than others.
func TestALineThatNeverEndsTakesLittleMemory(t *testing.T) {
	const most = 8 << 20
	header := appendLine(nil, Header{Form: form, Version: Version, Log: "1", Partitions: 1, Begins: 1, First: 1, Chain: fmt.Sprintf("%064d", 0)})
	for name, c := range map[string]struct {
		before []byte
		most   uint64 // bytes that are allocated
		want   string
	}{
		"the header": {nil, 16 << 20, fmt.Sprintf("bomb, line 1: the line is longer than %d bytes", maxHeader)},
		"an event":   {header, 2*most + 16<<20, fmt.Sprintf("bomb, line 2: the line is longer than %d bytes", most)},
	} {
		t.Run(name, func(t *testing.T) {
			var bomb bytes.Buffer
			z, err := zstd.NewWriter(&bomb, zstd.WithEncoderConcurrency(1))
			require.NoError(t, err)
			_, err = z.Write(c.before)
			require.NoError(t, err)
			for size, part := 0, make([]byte, 1<<20); size <= 3*most; size += len(part) {
				_, err = z.Write(part)
				require.NoError(t, err)
			}
			require.NoError(t, z.Close())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := newReader("bomb", &bomb)
			if err == nil {
				require.Equal(t, maxLine, r.most)
				r.most = most
				_, _, err = r.event()
				r.close()
			}
			runtime.ReadMemStats(&after)
			require.ErrorAs(t, err, new(*FaultError))
			require.ErrorContains(t, err, c.want)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, c.most)
		})
	}
}
