package main

import (
	"crypto/tls"
	"os"
	"strings"
	"sync"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// shownFile is a token for as long as a command runs. Whoever renews it replaces its file.
type shownFile struct {
	path string

	mu   sync.Mutex
	last string // what the file had when it had a token
}

// tokenIn reads the one token that a file has.
func tokenIn(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", cli.Failed(cli.Unreadable, "--token-file: %v", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", cli.Failed(cli.BadUsage, "--token-file %s: want one token and nothing else", path)
	}
	return token, nil
}

// now is the token that the file has now, or else the last one that it had: it may be
// half written. What is no file on a disk, such as a pipe, gives its token once. A nil
// shownFile has none.
func (f *shownFile) now() string {
	if f == nil {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if info, err := os.Stat(f.path); err == nil && info.Mode().IsRegular() {
		if token, err := tokenIn(f.path); err == nil {
			f.last = token
		}
	}
	return f.last
}

// shownPair is a client certificate, which is renewed in the same way.
type shownPair struct {
	cert, key string

	mu   sync.Mutex
	last tls.Certificate
}

// show is what a server is shown that asks for a certificate. None is shown to one that
// takes none of this kind.
func (p *shownPair) show(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pair, err := tls.LoadX509KeyPair(p.cert, p.key); err == nil { // else one of the two may be old still
		p.last = pair
	}
	now := p.last
	if asked.SupportsCertificate(&now) != nil {
		return new(tls.Certificate), nil
	}
	return &now, nil
}
