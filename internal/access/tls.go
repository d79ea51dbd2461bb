package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLSFiles name what a listener proves itself with, PEM all of them.
type TLSFiles struct {
	Cert, Key string
	// ClientCA are the authorities whose client certificates are believed;
	// empty: none are asked for.
	ClientCA string
}

// lookEvery bounds how often the files are looked at: a certificate that was
// replaced serves the connections made from a second later.
const lookEvery = time.Second

// ServerTLS is TLS 1.3 with the files' certificate. The files are read again
// when they change, so a certificate is rotated by replacing them; open connections
// go on. If the files cannot be read later, what was read before stays in force, failed is
// called, and they are tried again until they can be.
func ServerTLS(files TLSFiles, failed func(error)) (*tls.Config, error) {
	k := &keeper{files: files, failed: failed}
	k.stamp, k.looked = k.stamps(), time.Now() // before: what is written meanwhile is read again
	now, err := k.read()
	if err != nil {
		return nil, err
	}
	k.now = now
	base := now.Clone()
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.config(), nil }
	return base, nil
}

// keeper holds what the files said last.
type keeper struct {
	files  TLSFiles
	failed func(error)

	mu     sync.Mutex
	now    *tls.Config
	stamp  [3]fileStamp
	looked time.Time
	// failing is what is wrong with the files since they changed; empty: nothing. Another
	// owner or mode may put it right, which no stamp shows.
	failing string
}

type fileStamp struct {
	at   time.Time
	size int64
}

func (k *keeper) config() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < lookEvery {
		return k.now
	}
	k.looked = time.Now()
	stamp := k.stamps()
	if stamp == k.stamp && k.failing == "" {
		return k.now
	}
	changed := stamp != k.stamp
	k.stamp = stamp
	next, err := k.read()
	if err != nil {
		if why := err.Error(); changed || why != k.failing { // said once
			k.failing = why
			k.failed(err)
		}
		return k.now
	}
	k.now, k.failing = next, ""
	return next
}

func (k *keeper) stamps() (s [3]fileStamp) {
	for i, name := range [...]string{k.files.Cert, k.files.Key, k.files.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			s[i] = fileStamp{info.ModTime(), info.Size()}
		}
	}
	return s
}

func (k *keeper) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(k.files.Cert, k.files.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: %w", k.files.Cert, k.files.Key, err)
	}
	c := serverTLS(pair)
	if k.files.ClientCA == "" {
		return c, nil
	}
	if c.ClientCAs, err = ReadCA(k.files.ClientCA); err != nil {
		return nil, err
	}
	// Whoever has none may still have a token.
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}

func serverTLS(pair ...tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, Certificates: pair}
}

// ReadCA reads authorities from a PEM file.
func ReadCA(path string) (*x509.CertPool, error) {
	text, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %w", path, errors.New("holds no certificate in PEM"))
	}
	return pool, nil
}
