package artifact

import (
	"crypto"
	"fmt"
)

// CreateSigner makes a new key in a file of mode 0600, PKCS#8 PEM. A file that
// is there already is fs.ErrExist and stays as it is.
func CreateSigner(path string) (*Signer, error) {
	s, err := GenerateSigner()
	if err != nil {
		return nil, err
	}
	if err := s.Create(path); err != nil {
		return nil, fmt.Errorf("create key: %w", err)
	}
	return s, nil
}

// Crypto is the private key as crypto/x509 takes it.
func (s *Signer) Crypto() crypto.Signer { return s.private }
