package plane

import (
	"context"
	"net"

	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/disk"
	"github.com/edictdev/edict/internal/integrity"
)

// preflight finds what stands against a start, before anything is changed.
// Faults of the command line come first, then the lock on the data, then
// ports: who starts a second plane on one directory should hear that.
func (p *Plane) preflight(ctx context.Context) error {
	entrance := func() error { return p.openEntrance(ctx) }
	for _, check := range []func() error{p.checkAddresses, entrance, p.dir.Check, p.checkLock, p.checkKey, p.checkPorts, p.checkFound, p.checkDisk} {
		if err := check(); err != nil {
			return err
		}
	}
	if p.opt.Checked != nil {
		return p.opt.Checked()
	}
	return nil
}

func (p *Plane) external() bool { return p.opt.NATS != "" }

func (p *Plane) checkLock() error {
	if p.external() {
		return nil // the store's own lock tells
	}
	return p.dir.CheckLock()
}

func (p *Plane) checkKey() error {
	files := p.keyFiles()
	if err := files.CheckSigning(); err != nil {
		return &datadir.UnusableError{What: "--signing-key", Err: err}
	}
	if err := files.CheckNext(); err != nil {
		return &datadir.UnusableError{What: "--next-signing-key", Err: err}
	}
	return nil
}

func (p *Plane) checkFound() (err error) {
	p.found, err = datadir.Find(datadir.Options{Dir: p.dir, External: p.external(), Existing: p.opt.Existing, Relaxed: p.opt.Relaxed, Log: p.log})
	if err != nil {
		return err
	}
	return integrity.Advise(p.found.CheckBlocks())
}

func (p *Plane) checkDisk() error {
	return disk.NewGuard(p.diskOptions(datadir.Dir(p.dir.Existing()))).CheckStart()
}

func (p *Plane) checkPorts() error {
	if !p.opt.NoAPI {
		if err := probe(p.opt.HTTP); err != nil {
			return datadir.InUse(err, "--http", p.opt.HTTP)
		}
		if at := p.opt.Access.Admin; at != "" {
			if err := probe(at); err != nil {
				return datadir.InUse(err, "--admin", at)
			}
		}
	}
	if p.external() || p.opt.NATSListen == "" || p.opt.NATSListen == "none" {
		return nil
	}
	return datadir.InUse(probe(p.opt.NATSListen), "--nats-listen", p.opt.NATSListen)
}

func probe(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}
