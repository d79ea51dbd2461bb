package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/nats-io/nats.go"
)

// capture holds messages outside of the collector's sight: hundreds of
// megabytes of them would change how often it runs, and so what is measured.
type capture struct {
	room []byte
	used int
	msgs []kept
}

// kept is one message: its body lies in the capture's room.
type kept struct {
	subject string
	header  nats.Header
	at, end int // of the body
	size    int // with subject and headers
}

// newCapture has room for bodies of n bytes in all.
func newCapture(n int) (*capture, error) {
	room, err := syscall.Mmap(-1, 0, max(n, 1), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("room for %d bytes: %w", n, err)
	}
	return &capture{room: room}, nil
}

func (c *capture) free() { _ = syscall.Munmap(c.room) } // the process is about to forget it anyhow

var errFull = errors.New("there is no room for another message")

func (c *capture) add(m *nats.Msg) error {
	if c.used+len(m.Data) > len(c.room) {
		return errFull
	}
	c.put(m.Subject, m.Header, m.Data)
	return nil
}

func (c *capture) put(subject string, header nats.Header, body []byte) {
	k := kept{subject: subject, header: header, at: c.used, end: c.used + len(body), size: len(subject) + len(body)}
	for name, values := range header {
		k.size += len(name) + len(values[0]) + len(": \r\n")
	}
	c.used += copy(c.room[c.used:], body)
	c.msgs = append(c.msgs, k)
}

func (c *capture) body(k kept) []byte { return c.room[k.at:k.end:k.end] }

// mean is a message's size in bytes.
func (c *capture) mean() int {
	total := 0
	for _, k := range c.msgs {
		total += k.size
	}
	return total / max(len(c.msgs), 1)
}

// write writes the messages to a file: texts with their lengths before them.
func (c *capture) write(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	text := func(b []byte) {
		_, _ = w.Write(binary.AppendUvarint(nil, uint64(len(b)))) // the flush tells
		_, _ = w.Write(b)
	}
	for _, k := range c.msgs {
		text([]byte(k.subject))
		text(binary.AppendUvarint(nil, uint64(len(k.header))))
		for name, values := range k.header {
			text([]byte(name))
			text([]byte(values[0]))
		}
		text(c.body(k))
	}
	return w.Flush()
}

// readCapture reads what write wrote, with other subjects.
func readCapture(path, prefix string) (msgs []*nats.Msg, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	text := func() []byte {
		n, e := binary.ReadUvarint(r)
		if e != nil {
			err = e
			return nil
		}
		b := make([]byte, n)
		if _, e := io.ReadFull(r, b); e != nil {
			err = e
		}
		return b
	}
	for {
		subject := text()
		if errors.Is(err, io.EOF) {
			return msgs, nil
		}
		m := nats.NewMsg(prefix + string(subject))
		n, _ := binary.Uvarint(text())
		for range n {
			name := string(text())
			m.Header[name] = []string{string(text())}
		}
		m.Data = text()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		msgs = append(msgs, m)
	}
}
