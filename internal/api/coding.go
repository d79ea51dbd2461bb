package api

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// minCoded is how many bytes a body has at least that is worth coding.
const minCoded = 4 << 10

// coders are kept: one takes most of a megabyte.
var coders = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is one
	return z
}}

// packer makes zstd of whole bodies. Its window is as small as all clients have to take.
var packer = sync.OnceValue(func() *zstd.Encoder {
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false)) // the options are good
	return z
})

// coded is bytes, zstd- or gzip-coded where the client takes that and the body is large.
func (c *call) coded(status int, media string, body []byte) {
	h := c.w.Header()
	h.Add("Vary", "Accept-Encoding")
	coding := ""
	if len(body) >= minCoded {
		coding = codingFor(c.r.Header.Values("Accept-Encoding"))
	}
	if coding == "" {
		c.bytes(status, media, body)
		return
	}
	h.Set("Content-Type", media)
	h.Set("Content-Encoding", coding)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return
	}
	if coding == "zstd" {
		_, _ = answering(c).Write(packer().EncodeAll(body, nil)) // the client may be gone
		return
	}
	z := coders.Get().(*gzip.Writer)
	defer coders.Put(z)
	z.Reset(answering(c))
	_, _ = z.Write(body) // the client may be gone
	_ = z.Close()
}

// codingFor is zstd for who names it, gzip for who takes that, else none.
func codingFor(headers []string) string {
	switch {
	case strings.Contains(strings.ToLower(strings.Join(headers, ",")), "zstd") && takesCoding(headers, "zstd"):
		return "zstd"
	case takesCoding(headers, "gzip"):
		return "gzip"
	}
	return ""
}

// TakesGzip reports whether a client takes bodies that gzip coded, by its Accept-Encoding.
func TakesGzip(headers []string) bool { return takesCoding(headers, "gzip") }

// takesCoding reports whether a client takes bodies of this coding: it names it, or
// any coding, and not with the quality 0.
func takesCoding(headers []string, coding string) bool {
	named, star := "", ""
	for _, h := range headers {
		for part := range strings.SplitSeq(h, ",") {
			name, parameters, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case coding:
				named = quality(parameters)
			case "*":
				star = quality(parameters)
			}
		}
	}
	if named == "" {
		named = star
	}
	q, err := strconv.ParseFloat(named, 64)
	return err == nil && q > 0
}

// quality is the weight among the parameters of a coding, 1 where none is given.
func quality(parameters string) string {
	for p := range strings.SplitSeq(parameters, ";") {
		if name, q, ok := strings.Cut(strings.TrimSpace(p), "="); ok && strings.EqualFold(name, "q") {
			return q
		}
	}
	return "1"
}
