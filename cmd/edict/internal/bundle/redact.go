package bundle

import (
	"regexp"
	"strings"
)

// hidden is what stands in place of a secret.
const hidden = "[REDACTED]"

// secrets are texts that look like one; what the first group holds stays.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`()(?:edt|nsk|psb)_[A-Za-z0-9_-]+`),                                             // our own tokens
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),                     // JSON Web Tokens
	regexp.MustCompile(`()\bS[UAONCX][A-Z2-7]{56}\b`),                                                  // seeds of NATS keys
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`),                            // headers
	regexp.MustCompile(`(?i)(\b[a-z][a-z0-9+.-]*://)[^/\s"]+@`),                                        // in an address
	regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)-----END [A-Z ]*PRIVATE KEY-----`), // keys
	regexp.MustCompile(`(?i)(\b[a-z0-9_-]*(?:password|passwd|secret|token|api_?key)"?\s*[:=]\s*")(?:[^"\\]|\\.)+`),
	regexp.MustCompile(`(?i)(\b[a-z0-9_-]*(?:password|passwd|secret|token|api_?key)"?\s*[:=]\s*)[^\s",}\[][^\s",}]*`),
}

// Redactor takes secrets out of texts: those that are known, and what looks like one.
type Redactor struct{ Known []string }

// Text is a text without its secrets.
func (r Redactor) Text(text string) string {
	for _, known := range r.Known {
		if known != "" {
			text = strings.ReplaceAll(text, known, hidden)
		}
	}
	for _, secret := range secrets {
		text = secret.ReplaceAllString(text, "${1}"+hidden)
	}
	return text
}

// Bytes is Text of bytes.
func (r Redactor) Bytes(text []byte) []byte { return []byte(r.Text(string(text))) }
