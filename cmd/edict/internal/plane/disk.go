package plane

import (
	"fmt"
	"sync"
	"time"
)

// disk watches the free space of a directory: a JetStream store that met a
// full disk takes nothing more until its server restarts (design section 2).
type disk struct {
	dir     string
	minFree uint64

	mu   sync.Mutex
	at   time.Time
	last error
}

func newDisk(dir string, minFree uint64) *disk { return &disk{dir: dir, minFree: minFree} }

// writable says why nothing may be written now. It looks once a second.
func (d *disk) writable() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) < time.Second {
		return d.last
	}
	d.at, d.last = time.Now(), nil
	free, err := freeBytes(d.dir)
	if err == nil && free < d.minFree {
		const mib = 1 << 20
		d.last = fmt.Errorf("%d MiB of disk are free below %s, fewer than the %d MiB that --min-free keeps", free/mib, d.dir, d.minFree/mib)
	}
	return d.last
}
