package artifact

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Signer holds one ed25519 private key. It is safe for concurrent use.
type Signer struct {
	private ed25519.PrivateKey
	keyID   string
}

// KeyID names a raw ed25519 public key: "ed25519:" and the first 16 hex digits
// of its SHA-256.
func KeyID(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return "ed25519:" + hex.EncodeToString(sum[:8])
}

// GenerateSigner makes a new key.
func GenerateSigner() (*Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate signing key: %w", err)
	}
	return newSigner(private), nil
}

func newSigner(private ed25519.PrivateKey) *Signer {
	return &Signer{private, KeyID(private.Public().(ed25519.PublicKey))}
}

// ParseSigner reads an ed25519 private key in PKCS#8 PEM.
func ParseSigner(text []byte) (*Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New(`not a PKCS#8 PEM key: want a "PRIVATE KEY" block, as openssl genpkey -algorithm ed25519 writes it`)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("not a PKCS#8 key: %w", err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key is a %T; want ed25519", key)
	}
	return newSigner(private), nil
}

// PEM is the private key in PKCS#8 PEM.
func (s *Signer) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(s.private)
	if err != nil {
		return nil, fmt.Errorf("encode signing key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// LoadSigner reads a key file (PKCS#8 PEM). It refuses one that anybody but its
// owner may read or write. A missing file is fs.ErrNotExist.
func LoadSigner(path string) (*Signer, error) {
	text, err := readPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	s, err := ParseSigner(text)
	if err != nil {
		return nil, fmt.Errorf("signing key %s: %w", path, err)
	}
	return s, nil
}

func readPrivate(path string) ([]byte, error) {
	regular := func(info fs.FileInfo, err error) error {
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", path)
		}
		return err
	}
	// Looked at before it is opened: a pipe would wait for who writes to it.
	if err := regular(os.Stat(path)); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err := regular(info, err); err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); tooOpen(mode, ownerOf(info), os.Geteuid()) {
		return nil, fmt.Errorf("%s has mode %04o, so others than its owner may use it; chmod 600 it, or make a new key", path, mode)
	}
	const most = 1 << 16 // a key is some hundred bytes
	return io.ReadAll(io.LimitReader(f, most))
}

// tooOpen says whether a mode lets somebody use a private file whom its owner
// did not choose. A file of root's may be read by a group: so Kubernetes and
// systemd hand a secret to a process that is not root.
func tooOpen(mode fs.FileMode, owner, self int) bool {
	allowed := fs.FileMode(0o700)
	if owner == 0 && self != 0 {
		allowed = 0o740
	}
	return mode&^allowed != 0
}

// LoadOrCreateSigner reads the key file, or makes one with mode 0600. A crash
// leaves either no key file or a whole one; of two processes that create at
// once, both end with the same key.
func LoadOrCreateSigner(path string) (*Signer, error) {
	s, err := LoadSigner(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if s, err = GenerateSigner(); err != nil {
		return nil, err
	}
	switch err := s.Create(path); {
	case errors.Is(err, fs.ErrExist):
		return LoadSigner(path)
	case err != nil:
		return nil, fmt.Errorf("create signing key: %w", err)
	}
	return s, nil
}

// Create writes the key, PKCS#8 PEM, to a file of mode 0600 that is on disk when
// it returns. One that is there already is fs.ErrExist and stays as it is.
func (s *Signer) Create(path string) error {
	text, err := s.PEM()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return CreateFile(path, text, 0o600)
}

// KeyID names the key: see the function KeyID.
func (s *Signer) KeyID() string { return s.keyID }

// PublicKey is the raw public key, 32 bytes.
func (s *Signer) PublicKey() []byte {
	return append([]byte(nil), s.private.Public().(ed25519.PublicKey)...)
}

// Sign is the raw ed25519 signature of message, 64 bytes.
func (s *Signer) Sign(message []byte) []byte { return ed25519.Sign(s.private, message) }
