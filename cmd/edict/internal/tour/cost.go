package tour

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cost is what the plane says that it used so far, and what its log takes.
type cost struct {
	cpu      float64 // seconds
	resident float64 // bytes of memory
	disk     int64   // bytes that NATS holds in files
}

func (t *tour) cost(ctx context.Context) (c cost, err error) {
	text, err := t.client.Metrics(ctx)
	if err != nil {
		return c, err
	}
	c.cpu = sample(text, "process_cpu_seconds_total")
	c.resident = sample(text, "process_resident_memory_bytes")
	c.disk, err = sizeOf(t.serve.natsDir())
	return c, err
}

// sample is the value of a metric without labels; 0 where the system does not
// tell it.
func sample(text []byte, name string) float64 {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, _ := strconv.ParseFloat(value, 64) // 0, as where there is none
			return v
		}
	}
	return 0
}

// sizeOf sums up the files below a directory that is being written to.
func sizeOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				n += info.Size()
			}
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // a file that was replaced meanwhile
		}
		return err
	})
	return n, err
}
