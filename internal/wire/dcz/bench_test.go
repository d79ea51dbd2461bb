package dcz

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"
)

// table is one of so many entries, which has one more at a place; -1: it has not.
func table(entries, more int) []byte {
	r, b := rand.New(rand.NewSource(1)), strings.Builder{}
	for i := range entries {
		if i == more {
			b.WriteString(`{"direction":"egress","identity":1,"protocol":"udp","port":53,"prefix":16},`)
		}
		fmt.Fprintf(&b, `{"direction":"egress","identity":%d,"protocol":"tcp","port":%d,"prefix":16,"verdict":"allow","precedence":%d,"rule":{"policy":"%x","revision":"%x","index":%d}},`,
			i/7+1, r.Intn(65536), r.Uint32(), r.Uint64(), r.Uint64(), i%100)
	}
	return []byte(b.String())
}

// BenchmarkEncode codes a table with the one before it, and prints the time and the
// bytes beside those of gzip at its fastest.
func BenchmarkEncode(b *testing.B) {
	for _, entries := range []int{100, 5_000, 70_000} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			before, body := table(entries, -1), table(entries, entries/2)
			sum := sha256.Sum256(before)
			var coded, zipped bytes.Buffer
			var floor time.Duration
			for b.Loop() {
				coded.Reset()
				if err := Encode(&coded, body, before, sum); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				begin := time.Now()
				zipped.Reset()
				z, _ := gzip.NewWriterLevel(&zipped, gzip.BestSpeed)
				_, _ = z.Write(body)
				_ = z.Close()
				floor += time.Since(begin)
				b.StartTimer()
			}
			b.ReportMetric(float64(len(body)), "body-B")
			b.ReportMetric(float64(coded.Len()), "coded-B")
			b.ReportMetric(float64(zipped.Len()), "gzip-B")
			b.ReportMetric(float64(b.Elapsed())/float64(floor), "of-gzip")
		})
	}
}
