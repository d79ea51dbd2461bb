package access

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How long a link to a session may wait to be opened, and a session last.
const (
	LinkLife    = time.Minute
	SessionLife = 12 * time.Hour
)

// maxLinks is how many links wait at a time.
const maxLinks = 1000

// maxSession is how long the text of a session may be: browsers keep cookies of 4 KiB.
const maxSession = 3800

// Errors of sessions.
var (
	ErrNoLink         = errors.New("the link was used already, or is older than a minute, or of another worker")
	ErrTooManyLinks   = errors.New("too many links wait to be opened")
	ErrSessionOver    = errors.New("the session is over, or of another plane")
	ErrSessionTooLong = errors.New("the credentials are too long for a browser's cookie")
)

// Sessions lend credentials to a browser, which cannot read them. A session is the
// credentials themselves, sealed under a secret that all workers of the plane share: any
// worker reads it, after a restart too, nothing is kept of it, and whatever ends the
// credentials ends it. A link, which opens one session, is known to the worker that made it.
type Sessions struct {
	seal  cipher.AEAD
	name  string
	clock func() time.Time

	mu    sync.Mutex
	links map[[sha256.Size]byte]waitingLink // by the code's hash
}

type waitingLink struct {
	session session
	until   time.Time
}

// session is what is sealed.
type session struct {
	Bearer string    `json:"bearer,omitempty"`
	SPIFFE []string  `json:"spiffe,omitempty"`
	Until  time.Time `json:"until"`
}

// NewSessions returns the sessions of a plane by its secret; a nil clock is the wall clock.
func NewSessions(secret []byte, clock func() time.Time) (*Sessions, error) {
	if clock == nil {
		clock = time.Now
	}
	derived := func(purpose string) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(purpose))
		return h.Sum(nil)
	}
	block, err := aes.NewCipher(derived("seal of sessions"))
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	// Browsers send a host's cookies to all its ports: planes on one host must not share a name.
	name := "edict_session_" + hex.EncodeToString(derived("name of the cookie")[:4])
	return &Sessions{seal: seal, name: name, clock: clock, links: map[[sha256.Size]byte]waitingLink{}}, nil
}

// Cookie is the name of the cookie that has a session.
func (s *Sessions) Cookie() string { return s.name }

// Kept is the name of the cookie of who is on the way to the issuer.
func (s *Sessions) Kept() string { return s.name + "_sign_in" }

// Link is a code that opens one session with c. ends is when c is over, zero when that is
// not known; until is when the code is.
func (s *Sessions) Link(c Credentials, ends time.Time) (code string, until time.Time, err error) {
	now := s.clock()
	over := now.Add(SessionLife)
	if !ends.IsZero() && ends.Before(over) {
		over = ends
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, l := range s.links {
		if !now.Before(l.until) {
			delete(s.links, of)
		}
	}
	if len(s.links) >= maxLinks {
		return "", until, ErrTooManyLinks
	}
	code, until = rand.Text(), now.Add(LinkLife)
	s.links[sha256.Sum256([]byte(code))] = waitingLink{session{c.Bearer, c.SPIFFE, over}, until}
	return code, until, nil
}

// Open opens the session of a link, once.
func (s *Sessions) Open(code string) (text string, until time.Time, err error) {
	of := sha256.Sum256([]byte(code))
	s.mu.Lock()
	l, ok := s.links[of]
	delete(s.links, of)
	s.mu.Unlock()
	if !ok || !s.clock().Before(l.until) {
		return "", until, ErrNoLink
	}
	text, err = s.sealed(l.session, s.Cookie())
	return text, l.session.Until, err
}

// Lend is a session with c, of who signed in. ends is when c is over.
func (s *Sessions) Lend(c Credentials, ends time.Time) (text string, until time.Time, err error) {
	until = s.clock().Add(SessionLife)
	if ends.Before(until) {
		until = ends
	}
	text, err = s.sealed(session{c.Bearer, c.SPIFFE, until}, s.Cookie())
	return text, until, err
}

// Keep is what a browser keeps while its user signs in elsewhere.
func (s *Sessions) Keep(a Attempt) (text string, err error) { return s.sealed(a, s.Kept()) }

// Attempt is what a browser kept.
func (s *Sessions) Attempt(text string) (a Attempt, err error) {
	if err := s.open(text, s.Kept(), &a); err != nil || !s.clock().Before(a.Until) {
		return Attempt{}, ErrSignInOver
	}
	return a, nil
}

// sealed is a value as a browser keeps it under the name of a cookie. One that is kept
// under another name is none.
func (s *Sessions) sealed(v any, name string) (string, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("seal %s: %w", name, err)
	}
	text := base64.RawURLEncoding.EncodeToString(s.seal.Seal(nil, nil, body, []byte(name)))
	if len(text) > maxSession {
		return "", ErrSessionTooLong
	}
	return text, nil
}

func (s *Sessions) open(text, name string, into any) error {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	body, err := s.seal.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// Read is what a session lends, and until when.
func (s *Sessions) Read(text string) (c Credentials, until time.Time, err error) {
	var of session
	if s.open(text, s.Cookie(), &of) != nil || !s.clock().Before(of.Until) {
		return c, until, ErrSessionOver
	}
	return Credentials{Bearer: of.Bearer, SPIFFE: of.SPIFFE}, of.Until, nil
}
