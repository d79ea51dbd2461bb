package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/edictdev/edict/api/client"
)

const (
	renewBefore = 14 * 24 * time.Hour // the end of a certificate
	clockApart  = 5 * time.Second     // tokens and certificates bear that, and people who compare logs
)

// way is what lies between this client and the plane.
func (p Patient) way(ctx context.Context) []Finding {
	all := []Finding{p.token()}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Server.JoinPath("livez").String(), nil)
	if err != nil {
		return append(all, Finding{"address", Failed, err.Error(), "edict context list"})
	}
	asked := p.Now()
	res, err := p.HTTP.Do(req)
	if err != nil {
		return append(all, p.unanswered(ctx, err))
	}
	defer res.Body.Close()
	answered := p.Now()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)) // so that the connection is used again
	if res.StatusCode != http.StatusOK {
		return append(all, p.noPlane(res))
	}
	all = append(all, Finding{Check: "address", State: OK, Detail: p.Server.Redacted() + " answers"})
	return append(all, p.encryption(res.TLS), p.clocks(res.Header.Get("Date"), asked, answered))
}

// token is the file that a token is read from: that it can be, the client has seen.
func (p Patient) token() Finding {
	if p.TokenFile == "" {
		return Finding{Check: "token", State: OK, Detail: "none is shown"}
	}
	info, err := os.Stat(p.TokenFile)
	if err != nil {
		return Finding{"token", Failed, err.Error(), "edict access token create NAME --relation project:ID#read"}
	}
	const others = 0o077
	if info.Mode().Perm()&others != 0 {
		return Finding{"token", Warning, p.TokenFile + " can be read by others", "chmod 600 " + p.TokenFile}
	}
	return Finding{Check: "token", State: OK, Detail: p.TokenFile}
}

// unanswered says what a request met that had no answer.
func (p Patient) unanswered(ctx context.Context, err error) Finding {
	var unknown x509.UnknownAuthorityError
	var named x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	var name *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return Finding{"tls", Failed, unknown.Error(), p.asks("edict doctor", "ca") + " --ca FILE, with the authority of the plane's certificate"}
	case errors.As(err, &named):
		return Finding{"tls", Failed, named.Error(), p.asks("edict doctor", "server") + " --server https://NAME, a name that the certificate has"}
	case errors.As(err, &invalid):
		return Finding{"tls", Failed, invalid.Error(), "openssl x509 -noout -dates -in FILE, on the plane; date, here"}
	case errors.Is(err, http.ErrSchemeMismatch):
		return Finding{"tls", Failed, "what answers at " + p.Server.Host + " speaks no TLS", p.asks("edict doctor", "server") + " --server http://" + p.Server.Host}
	case errors.As(err, &alert):
		return Finding{"tls", Failed, "the plane wants a client certificate, or another one: " + alert.Error(), p.asks("edict doctor", "cert", "key") + " --cert FILE --key FILE"}
	case errors.As(err, &name):
		return Finding{"address", Failed, name.Error(), "edict context list; getent hosts " + p.Server.Hostname()}
	}
	if _, err := p.Client.Ready(ctx); errors.Is(err, client.ErrSpeaksNATS) {
		return Finding{"address", Failed, p.Server.Redacted() + ": " + client.ErrSpeaksNATS.Error(), p.asks("edict doctor", "server") + " --server URL"}
	}
	next := "edict context list; edict serve, if no plane runs here"
	if p.systemd() {
		next = "edict context list; systemctl status edict, on the plane"
	}
	return Finding{"address", Failed, fmt.Sprintf("%s does not answer: %v", p.Server.Redacted(), errors.Unwrap(err)), next}
}

// systemd reports whether it may be what runs the plane: of another machine nothing is known.
func (p Patient) systemd() bool { return p.Systemd || !p.here() }

// here reports whether the plane is on this machine.
func (p Patient) here() bool {
	ip := net.ParseIP(p.Server.Hostname())
	return p.Server.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// noPlane says of an answer that no plane gives.
func (p Patient) noPlane(res *http.Response) Finding {
	detail := fmt.Sprintf("%s answers %s, as no plane does", p.Server.Redacted(), res.Status)
	if res.StatusCode == http.StatusBadRequest && p.Server.Scheme == "http" {
		return Finding{"address", Failed, detail, p.asks("edict doctor", "server") + " --server https://" + p.Server.Host}
	}
	return Finding{"address", Failed, detail, "edict context list"}
}

func (p Patient) encryption(state *tls.ConnectionState) Finding {
	if state == nil {
		if p.here() {
			return Finding{Check: "tls", State: OK, Detail: "not used, on this machine alone"}
		}
		return Finding{"tls", Warning, "not used: everybody on the way reads and changes what is said", "edict serve --tls-cert FILE --tls-key FILE, on the plane"}
	}
	ends := state.PeerCertificates[0].NotAfter
	detail := fmt.Sprintf("%s, the certificate is good until %s", tls.VersionName(state.Version), ends.UTC().Format(time.DateOnly))
	if ends.Sub(p.Now()) < renewBefore {
		return Finding{"tls", Warning, detail, "renew the plane's certificate; its workers read the files again when they change"}
	}
	return Finding{Check: "tls", State: OK, Detail: detail}
}

// clocks compares ours with that of an answer's Date, which is cut to a second.
func (p Patient) clocks(date string, asked, answered time.Time) Finding {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return Finding{Check: "clock", State: Skipped, Detail: "the answer has no date"}
	}
	apart := time.Duration(0)
	if before := asked.Truncate(time.Second).Sub(theirs); before > 0 {
		apart = before
	} else if after := theirs.Sub(answered); after > 0 {
		apart = after
	}
	if apart > clockApart {
		next := "date -u, here and on the plane"
		if p.Systemd {
			next = "timedatectl status, here and on the plane"
		}
		return Finding{"clock", Warning, fmt.Sprintf("this machine's and the plane's are %s apart", apart.Round(time.Second)), next}
	}
	return Finding{Check: "clock", State: OK, Detail: "this machine and the plane agree"}
}
