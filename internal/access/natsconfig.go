package access

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// natsMaxPayload is the largest message of Edict's: a node's artifacts.
const natsMaxPayload = "8MB"

// NATSServer says where a server listens and what it proves itself with.
type NATSServer struct {
	Listen string // host:port
	Store  string // directory of its streams
	Cert   string // PEM file; empty: no TLS
	Key    string // its private key
}

// Config is a configuration for nats-server that needs nothing beside it, and
// holds nothing secret.
func (k *NATSKeys) Config(s NATSServer) (string, error) {
	var b strings.Builder
	b.WriteString(`# A NATS server for Edict, as "edict nats bootstrap --print" says it. Nothing in here is secret.
# It runs as it is (nats-server --config FILE). A configuration of your own includes it in its
# first line: what you write below that counts in place of what is in here.
`)
	var faults []error
	line := func(indent, name, value string) {
		if strings.ContainsFunc(value, func(r rune) bool { return r == '"' || r == '\\' || unicode.IsControl(r) }) {
			faults = append(faults, fmt.Errorf("%s %q: without quotes, backslashes and control characters, please", name, value))
		}
		fmt.Fprintf(&b, "%s%s: \"%s\"\n", indent, name, value)
	}
	line("", "listen", s.Listen)
	b.WriteString("max_payload: " + natsMaxPayload + "\n\njetstream {\n")
	line("  ", "store_dir", s.Store)
	b.WriteString("  # Acknowledged means on disk. The default would leave two minutes to a power failure.\n  sync_interval: always\n}\n")
	if s.Cert != "" {
		b.WriteString("\ntls {\n")
		line("  ", "cert_file", s.Cert)
		line("  ", "key_file", s.Key)
		b.WriteString("  min_version: \"1.3\"\n}\n")
	}
	operator, err := k.document(operatorName)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "\noperator: %s\nresolver: MEMORY\nresolver_preload {\n", operator)
	for _, a := range natsAccounts {
		c, err := k.account(a.name)
		if err != nil {
			return "", err
		}
		text, err := k.document(a.name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "  # %s\n  %s: %s\n", a.label, c.Subject, text)
	}
	b.WriteString("}\n")
	return b.String(), errors.Join(faults...)
}
