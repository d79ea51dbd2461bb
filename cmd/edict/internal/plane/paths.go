package plane

import (
	"path/filepath"

	"github.com/edictdev/edict/disk"
)

// The parts of a data directory.
const (
	storeName = "store" // the read model
	natsName  = "nats"  // the log's and the node stream's server
	keyName   = "signing.key"
	keysName  = "keys" // other keys that the plane made
)

func (p *Plane) storeDir() string { return filepath.Join(p.opt.Data, storeName) }
func (p *Plane) natsDir() string  { return filepath.Join(p.opt.Data, natsName) }

// backpressured is the log as the fold follows it.
func (p *Plane) backpressured() disk.BackpressuredLog {
	return disk.BackpressuredLog{Log: p.stream, Guard: p.disk}
}
