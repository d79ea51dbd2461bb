// Package plane runs a plane of Edict, or one worker of it, inside another Go
// program. It is what `edict serve` does, without the flags:
//
//	p, err := plane.Open(ctx, plane.Config{Data: "data"})
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	return p.Run(ctx)
//
// Authors and nodes reach it as they reach any plane: at URL, with packages
// api/client and node. docs/examples/embed is a whole program.
package plane

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/edictdev/edict/internal/plane"
)

// Plane is one process of a plane, open. Its methods are safe for many
// goroutines.
type Plane struct {
	plane  *plane.Plane
	secure bool
	ready  chan struct{}
	close  func()
	ended  atomic.Bool // Run or Close was called
}

// ErrEnded is what Run returns of a plane that ran before or is closed.
var ErrEnded = errors.New("this plane ran before or is closed: open another with Open")

// Open opens what cfg names, and listens. Nothing is answered before Run. A field
// that cannot be is a *ConfigError; what is wrong with an address, a file or the
// directory that a field names is another error, in which the field has the name
// of its flag of `edict serve`. After any error nothing is left open. ctx bounds
// the start alone, which takes as long as the log's servers and a rebuild of the
// read model take.
func Open(ctx context.Context, cfg Config) (*Plane, error) {
	opt, err := cfg.options()
	if err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	opt.Ready = func(plane.Addresses) { close(ready) }
	opened, err := plane.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	secure := opt.Access.TLS.Cert != "" || opt.Access.Workload != ""
	return &Plane{plane: opened, secure: secure, ready: ready, close: sync.OnceFunc(opened.Close)}, nil
}

// Run runs the plane until ctx ends, and returns nil then, or until a part cannot
// go on. It runs once: after that, or after Close, it returns ErrEnded.
func (p *Plane) Run(ctx context.Context) error {
	if p.ended.Swap(true) {
		return ErrEnded
	}
	return p.plane.Run(ctx)
}

// Close closes what Open opened. Run must have returned, or never been called.
func (p *Plane) Close() {
	p.ended.Store(true)
	p.close()
}

// Ready is closed once everything answers: the read model has caught up with the
// log, and every partition is published by some worker.
func (p *Plane) Ready() <-chan struct{} { return p.ready }

// URL is where the API answers, such as http://127.0.0.1:8080; empty where it is
// not served.
func (p *Plane) URL() string { return p.url(p.plane.Addresses().HTTP) }

// AdminURL is where operators' routes answer; empty: with the rest.
func (p *Plane) AdminURL() string { return p.url(p.plane.Addresses().Admin) }

// NATSURL is where NATS clients reach the log and the nodes' subjects; empty where
// they are not served.
func (p *Plane) NATSURL() string { return p.plane.Addresses().NATS }

func (p *Plane) url(addr string) string {
	switch {
	case addr == "":
		return ""
	case p.secure:
		return "https://" + addr
	}
	return "http://" + addr
}
