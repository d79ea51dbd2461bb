package main

import (
	"crypto/tls"
	"sync"
)

// shownPair is a client certificate for as long as a command runs. Whoever renews it replaces
// its files.
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
