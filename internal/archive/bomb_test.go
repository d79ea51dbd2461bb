package archive

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// TestALineThatNeverEndsTakesLittleMemory: a few kilobytes inflate to gigabytes. The bound of
// an event is that of a reader that takes less than others.
func TestALineThatNeverEndsTakesLittleMemory(t *testing.T) {
	const most = 8 << 20
	header := appendLine(nil, Header{Form: form, Version: Version, Log: "1", Partitions: 1, Begins: 1, First: 1, Chain: fmt.Sprintf("%064d", 0)})
	zeros := string(make([]byte, 1<<20))
	for name, c := range map[string]struct {
		before []byte
		again  string
		most   uint64 // bytes that are allocated
		want   string
	}{
		"the header": {nil, zeros, 16 << 20, fmt.Sprintf("bomb, line 1: the line is longer than %d bytes", maxHeader)},
		"an event":   {header, zeros, 2*most + 16<<20, fmt.Sprintf("bomb, line 2: the line is longer than %d bytes", most)},
		"an event's headers": {
			append(header, `{"seq":1,"time":"1970-01-01T00:00:00Z","subject":"a","headers":[["",""]`...), strings.Repeat(`,["",""]`, most/8-100) + "]}\n",
			6*most + 16<<20, fmt.Sprintf("bomb, line 2: no event: its headers are longer than %d bytes", maxHeaders),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var bomb bytes.Buffer
			z, err := zstd.NewWriter(&bomb, zstd.WithEncoderConcurrency(1))
			require.NoError(t, err)
			_, err = z.Write(c.before)
			require.NoError(t, err)
			for size := 0; size <= 3*most; size += len(c.again) {
				_, err = z.Write([]byte(c.again))
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
