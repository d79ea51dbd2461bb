// Package dcz codes a body with a dictionary that its reader has (RFC 9842): what the
// two have in common is not sent again. It has no I/O of its own.
package dcz

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Coding is the name of the coding: Zstandard, and before it which dictionary it takes.
// A client names its dictionary in the header Available-Dictionary.
const (
	Coding = "dcz"
	Header = "Available-Dictionary"
)

// Max bounds a dictionary, and what is coded with it, in bytes.
const Max = 64 << 20

// large is from where on the encoder finds matches only by looking further
// than it does by default.
const large = 2 << 20

// magic begins every such body; the SHA-256 of the dictionary follows.
var magic = []byte{0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0}

// Name is the value of Header for a dictionary of this SHA-256.
func Name(sum [sha256.Size]byte) string {
	return ":" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// ParseName reads a value of Header.
func ParseName(text string) (sum [sha256.Size]byte, ok bool) {
	if len(text) < 2 || text[0] != ':' || text[len(text)-1] != ':' {
		return sum, false
	}
	raw, err := base64.StdEncoding.DecodeString(text[1 : len(text)-1])
	return sum, err == nil && copy(sum[:], raw) == len(raw) && len(raw) == len(sum)
}

// Encode writes a body, coded with a dictionary of the given SHA-256. Both
// are at most Max long.
func Encode(w io.Writer, body, dictionary []byte, sum [sha256.Size]byte) error {
	if len(body) > Max || len(dictionary) > Max {
		return fmt.Errorf("a body of %d bytes or a dictionary of %d is longer than %d", len(body), len(dictionary), Max)
	}
	window := zstd.MinWindowSize
	for window < len(body)+len(dictionary) { // so that all of the dictionary stays within reach
		window *= 2
	}
	level := zstd.SpeedDefault
	if len(dictionary) >= large {
		level = zstd.SpeedBetterCompression
	}
	if _, err := w.Write(append(bytes.Clone(magic), sum[:]...)); err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderDictRaw(0, dictionary), zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(level))
	if err != nil {
		return err
	}
	_, err = z.Write(body)
	return errors.Join(err, z.Close())
}

// Decode reads a body that was coded with a dictionary, of at most limit
// bytes.
func Decode(r io.Reader, dictionary []byte, limit int64) ([]byte, error) {
	head := make([]byte, len(magic)+sha256.Size)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("read which dictionary the body takes: %w", err)
	}
	if sum := sha256.Sum256(dictionary); !bytes.HasPrefix(head, magic) || !bytes.Equal(head[len(magic):], sum[:]) {
		return nil, errors.New("the body is coded with another dictionary")
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderDictRaw(0, dictionary), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(2*Max))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	body, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("the body is longer than %d bytes", limit)
	}
	return body, err
}
