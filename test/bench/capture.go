package main

import (
	"fmt"
	"syscall"

	"github.com/edictdev/edict/streams"
)

// capture holds messages outside of the collector's sight: hundreds of
// megabytes of them would change how often it runs, and so what is measured.
type capture struct {
	room []byte
	used int
	msgs []kept
}

// kept is one message: its texts lie in the capture's room.
type kept struct {
	subject string
	header  map[string][]string
	at, end int // of the body
	size    int // with subject and headers
}

// newCapture has room for bodies of n bytes in all.
func newCapture(n int) (*capture, error) {
	room, err := syscall.Mmap(-1, 0, max(n, 1), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("room for %d bytes: %w", n, err)
	}
	return &capture{room: room}, nil
}

func (c *capture) free() { _ = syscall.Munmap(c.room) } // the process is about to forget it anyhow

func (c *capture) add(m streams.Message) {
	k := kept{subject: m.Subject, header: make(map[string][]string, len(m.Header)), at: c.used, end: c.used + len(m.Body)}
	k.size = len(m.Subject) + len(m.Body)
	for name, values := range m.Header {
		k.header[plainHeader(name)] = values
		k.size += len(name) + len(values[0]) + len(": \r\n")
	}
	c.used += copy(c.room[c.used:], m.Body)
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
