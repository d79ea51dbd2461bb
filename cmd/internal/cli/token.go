package cli

import (
	"io"
	"os"
	"strings"
	"sync"
)

// TokenFile is the bearer token in a file, for as long as a program runs. Whoever renews it
// replaces the file. A nil TokenFile has no token. Its methods may be called concurrently.
type TokenFile struct {
	path string

	mu   sync.Mutex
	last string // what the file had when it had a token
}

// OpenTokenFile reads the token of --token-file. A file without exactly one token is an error.
func OpenTokenFile(path string) (*TokenFile, error) {
	token, err := tokenIn(path)
	if err != nil {
		return nil, err
	}
	return &TokenFile{path: path, last: token}, nil
}

// maxToken bounds what is read: another file may be large, and a device has no end.
const maxToken = 1 << 20

// tokenIn reads the one token that a file has.
func tokenIn(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", Failed(Unreadable, "--token-file: %v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", Failed(Unreadable, "--token-file: %v", err)
	}
	if len(text) > maxToken {
		return "", Failed(BadUsage, "--token-file %s: longer than %d KiB, which no token is; name the file of one", path, maxToken>>10)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", Failed(BadUsage, "--token-file %s: want one token and nothing else", path)
	}
	return token, nil
}

// Now is the token that the file has now, or else the last one that it had: it may be
// half written. What is no file on a disk, such as a pipe, gives its token once.
func (f *TokenFile) Now() string {
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
