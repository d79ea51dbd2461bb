package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/streams"
)

// publisherCommand makes this binary the plain publisher, in a process of its
// own.
const publisherCommand = "plain-publisher"

// Subjects of the plain publisher: it publishes when it is asked to, and its
// messages are the product's under another first token.
const (
	publisherGo     = "floor.go"
	publisherPrefix = "plain."
)

// servePlain publishes the messages of a file whenever it is asked to, on a server
// of its own. signs: it makes a signature for each.
func servePlain(readyFile, file string, signs bool) error {
	msgs, err := readCapture(file, publisherPrefix)
	if err != nil {
		return err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	server, err := streams.StartServer(streams.ServerOptions{Dir: filepath.Join(filepath.Dir(readyFile), "nats"), Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	conn, err := nats.Connect("", nats.InProcessServer(server), nats.Name("publisher"))
	if err != nil {
		return err
	}
	var signature []byte
	_, err = conn.Subscribe(publisherGo, func(ask *nats.Msg) {
		for _, m := range msgs {
			if signs {
				signature = ed25519.Sign(key, m.Data)
			}
			if err := conn.PublishMsg(m); err != nil {
				say("publish: %v", err)
				os.Exit(1)
			}
		}
		_ = ask.Respond(signature) // who asked waits for the messages
	})
	if err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	if err := writeReady(readyFile, ready{NATS: server.ClientURL()}); err != nil {
		return err
	}
	select {}
}

// floorPublisher is such a process, and a listener before it.
type floorPublisher struct {
	*child
	ear *ear
}

func startPublisher(ctx context.Context, dir, name, file string, signs bool) (*floorPublisher, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	readyFile := filepath.Join(dir, "ready")
	c, err := start(ctx, dir, name, readyFile, self, publisherCommand, readyFile, file, fmt.Sprint(signs))
	if err != nil {
		return nil, err
	}
	p := &floorPublisher{child: c}
	if p.ear, err = listen(c.nats, publisherPrefix+">"); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return p, nil
}

func (p *floorPublisher) close() error {
	p.ear.close()
	return p.stop()
}

// publish has it publish, and waits until the listener has n messages.
func (p *floorPublisher) publish(ctx context.Context, n int) (took time.Duration, cpu float64, err error) {
	used, err := p.cpuSeconds()
	if err != nil {
		return 0, 0, err
	}
	p.ear.reset()
	began := time.Now()
	if err := p.ear.conn.Publish(publisherGo, nil); err != nil {
		return 0, 0, err
	}
	if err := p.ear.await(ctx, n); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	now, err := p.cpuSeconds()
	return took, now - used, err
}

// floors are the plain publisher, and one that signs.
type floors struct{ plain, signed *floorPublisher }

func (t *telling) openFloors(ctx context.Context, e *env) (f *floors, err error) {
	file := filepath.Join(e.dir, "messages")
	if err := t.same.write(file); err != nil {
		return nil, err
	}
	f = &floors{}
	if f.plain, err = startPublisher(ctx, e.dir, "plain", file, false); err != nil {
		return nil, err
	}
	if f.signed, err = startPublisher(ctx, e.dir, "signed", file, true); err != nil {
		return nil, errors.Join(err, f.plain.close())
	}
	return f, nil
}

func (f *floors) close() error { return errors.Join(f.plain.close(), f.signed.close()) }
