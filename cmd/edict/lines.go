package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"sync/atomic"

	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
)

// lines opens an input, inflates it if it was compressed with gzip, and counts
// its lines; those of stdin, and of what is compressed, are not known.
func (a *console) lines(file string) (r io.ReadCloser, name string, total int64, err error) {
	if file == "-" {
		r, _, err = inflated(io.NopCloser(a.stdin))
		return r, document.Stdin, 0, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, "", 0, err
	}
	if total, err = countLines(f); err != nil {
		f.Close()
		return nil, "", 0, err
	}
	r, compressed, err := inflated(f)
	if err != nil {
		f.Close()
		return nil, "", 0, err
	}
	if compressed {
		total = 0
	}
	return r, file, total, nil
}

// countLines reads a file once and goes back to its beginning. What is no plain file, such as a
// pipe, is not read: it may not go back, or have no end.
func countLines(f *os.File) (total int64, err error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		total += int64(bytes.Count(buf[:n], []byte{'\n'}))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return total, err
}

// inflated looks whether a stream was compressed, by its first bytes.
func inflated(r io.ReadCloser) (_ io.ReadCloser, compressed bool, err error) {
	in := bufio.NewReader(r)
	plain := struct {
		io.Reader
		io.Closer
	}{in, r}
	if magic, _ := in.Peek(2); string(magic) != "\x1f\x8b" {
		document.SkipMark(in)
		plain.Reader = document.OnlyText(in)
		return plain, false, nil
	}
	z, err := gzip.NewReader(in)
	if err == nil {
		text := bufio.NewReader(z)
		document.SkipMark(text)
		plain.Reader = document.OnlyText(text)
	}
	return plain, true, err
}

// firstByte is the first byte of a text that is no space, or a space if it is far away;
// 0: there is none. whole is the text, of which no more was read than that took.
func firstByte(r io.Reader) (c byte, whole io.Reader, err error) {
	in := bufio.NewReader(r)
	for n := 1; n < in.Size(); n++ {
		head, err := in.Peek(n)
		if errors.Is(err, io.EOF) {
			return 0, in, nil
		}
		if err != nil {
			return 0, in, err
		}
		if c = head[n-1]; c > ' ' {
			return c, in, nil
		}
	}
	return ' ', in, nil
}

// lineCounter shows how many lines were sent, and notes whether there was a byte, and what
// kept it from reading on.
type lineCounter struct {
	r      io.Reader
	bar    *progress.Work
	some   *bool
	failed atomic.Pointer[error]
}

func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.some = *c.some || n > 0
	c.bar.Add(int64(bytes.Count(p[:n], []byte{'\n'})))
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed.Store(&err)
	}
	return n, err
}
