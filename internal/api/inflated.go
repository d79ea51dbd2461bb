package api

import (
	"io"
	"net/http"
)

// counted counts what came.
type counted struct {
	io.ReadCloser
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.n += int64(n)
	return n, err
}

// capped ends what inflates with a problem where it is too much, by itself or for
// what came.
type capped struct {
	r    io.Reader
	came *counted
	n    int64
}

func (c *capped) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	if c.n > min(maxBatch, freeInflated+maxInflation*c.came.n) {
		return 0, problem(http.StatusRequestEntityTooLarge, CodeBodyTooLarge,
			"a compressed batch inflates to at most %d bytes, and beyond %d bytes to %d times what was sent: send it as it is",
			int64(maxBatch), freeInflated, maxInflation)
	}
	return n, err
}
