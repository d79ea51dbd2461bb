package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/greeter"
)

// What is at an address that is not a plane's, or not in that way, is said with the flag
// that helps.
func TestAnAddressThatIsNoPlanesIsNamed(t *testing.T) {
	t.Parallel()
	secured := httptest.NewTLSServer(http.NotFoundHandler())
	defer secured.Close()
	ended := func(server string) (code int, said string) {
		var stderr bytes.Buffer
		code = run(context.Background(), []string{"status", "--server", server}, strings.NewReader(""), &bytes.Buffer{}, &stderr)
		return code, stderr.String()
	}
	code, said := ended(secured.URL)
	require.Equal(t, cli.Unavailable, code)
	require.Contains(t, said, "certificate signed by unknown authority; give its certificate's authority with --ca FILE")
	require.NotContains(t, said, "is it running")

	code, said = ended(strings.Replace(secured.URL, "https", "http", 1))
	require.Equal(t, cli.Unavailable, code)
	require.Contains(t, said, "it speaks TLS: use https://")

	open := httptest.NewServer(http.NotFoundHandler())
	defer open.Close()
	code, said = ended(strings.Replace(open.URL, "http", "https", 1))
	require.Equal(t, cli.Unavailable, code)
	require.Contains(t, said, "it speaks no TLS: use http://")
	require.NotContains(t, said, "is it running")

	code, said = ended(greeter.Start(t, "INFO {\"server_id\":\"N\"} \r\n"))
	require.Equal(t, cli.Unavailable, code)
	require.Contains(t, said, "that is a NATS server; the API is at the address that the plane has as --http\n")

	refusal := resource.NewProblem(http.StatusUnauthorized, "unauthenticated", "this needs credentials")
	require.Contains(t, explain(refusal), "(--token-file, --cert and --key, or a context)")
	absent := resource.NewProblem(http.StatusNotFound, api.CodeNodeNotFound, "there is no node web-1 here")
	require.Contains(t, explain(absent), "; edict node list shows the nodes of --project; edict node apply registers one")
}

// Where the plane says what is wrong and not what to do, the command line adds it.
func TestWhatToDoIsSaidOnce(t *testing.T) {
	t.Parallel()
	answered := func(code, detail string) string {
		return explain(fmt.Errorf("web: %w", resource.NewProblem(http.StatusServiceUnavailable, code, "%s", detail)))
	}
	require.Equal(t, "web: the log is away (log_unavailable); type it again; edict doctor says what is wrong", answered(api.CodeLogUnavailable, "the log is away"))
	require.Contains(t, answered(api.CodeProjectNotFound, "there is none"), "(project_not_found); edict access self shows your relations; ")
	said := "the log is away: edict doctor says why"
	require.Equal(t, "web: "+said+" (log_unavailable)", answered(api.CodeLogUnavailable, said))
	require.Equal(t, "web: slug web is taken: choose another (policy_slug_taken)", answered(projector.CodePolicySlugTaken, "slug web is taken: choose another"))
	for _, code := range unsaid {
		require.NotEmpty(t, unsaidCure(&resource.Problem{Code: code, Status: http.StatusServiceUnavailable}), code)
	}
}

// What is full is a directory that nobody named, so the way to another is said.
func TestAFullTemporaryDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	noRoom := func(path string) error {
		return fmt.Errorf("replay: %w", &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC})
	}
	dir, cleanup, err := scratch("")
	require.NoError(t, err)
	defer cleanup()
	require.Contains(t, explain(noRoom(dir+"/000004.sst")), "000004.sst: no space left on device; free some there, or have TMPDIR name a directory elsewhere")
	require.NotContains(t, explain(noRoom("rebuilt/000004.sst")), "TMPDIR")
	require.Equal(t, cli.Unavailable, codeOf(noRoom(dir)))
}

// Most of what is printed is printed without a look at whether it could be.
func TestAFullStandardOutputIsNotFine(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"errors"}, {"help"}, {"explain", "policy"}, {"errors", "-o", "json"}} {
		var stderr bytes.Buffer
		require.Equal(t, cli.Unavailable, run(context.Background(), args, strings.NewReader(""), full{}, &stderr), args)
		require.Contains(t, stderr.String(), "no space left on device", args)
	}
}

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// No cure is another's: whoever registers a node is not told to ask for a relation, nor that a file is wrong
// where there is none.
func TestCuresFit(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"token_expired", "token_revoked", "token_consumed"} {
		list, err := errorCodes([]string{code})
		require.NoError(t, err)
		require.Contains(t, list[0].Do, "edict access bootstrap --node NODE")
	}
	list, err := errorCodes([]string{"too_many_entries", "too_many_priorities", "version_ahead", "tests_failed", "too_many_rejected", "bad_cursor"})
	require.NoError(t, err)
	for _, c := range list {
		require.NotContains(t, c.Do, "edict explain", c.Code)
	}
}

// A server that went away, or has no leader, is no difference that was found.
func TestWhatAServerCannotTakeNowHasTheExitCodeOfThat(t *testing.T) {
	t.Parallel()
	for _, err := range []error{streams.ErrBusy, streams.ErrNoAnswer, streams.ErrUnknown, streams.ErrStorage} {
		require.Equal(t, cli.Unavailable, exitCode(fmt.Errorf("import the log: %w", err)), err.Error())
	}
}

// A disk that is full, or mounted read-only, is no difference that was found.
func TestWhatADiskRefusesHasItsOwnExitCodes(t *testing.T) {
	t.Parallel()
	for errno, code := range map[syscall.Errno]int{
		syscall.ENOSPC: cli.Unavailable, syscall.EDQUOT: cli.Unavailable,
		syscall.EROFS: cli.Unreadable, syscall.ENOTDIR: cli.Unreadable, syscall.EISDIR: cli.Unreadable,
	} {
		require.Equal(t, code, exitCode(fmt.Errorf("write a segment: %w", &fs.PathError{Op: "write", Path: "x", Err: errno})), errno.Error())
	}
}

// What answers in a plane's place is no plane without anything.
func TestWhatNoPlaneAnswersIsUnavailable(t *testing.T) {
	t.Parallel()
	for media, body := range map[string]string{"application/json": "{}", "text/event-stream": "event: log_event\ndata: {\"se"} {
		between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			if body != "{}" {
				w.Header().Set("Content-Length", "4096") // it is cut
			}
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(between.Close)
		for _, args := range []string{
			"policy list", "node list -o json", "status", "probe readyz", "probe livez", "node state n1", "datapath show n1", "events", "events -w",
			"admission decisions -w", "key list", "audit",
		} {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append(strings.Fields(args), "--server", between.URL), strings.NewReader(""), &stdout, &stderr)
			require.Equal(t, cli.Unavailable, code, "%s: %s", args, &stderr)
			require.Empty(t, stdout.String(), args)
		}
	}
}

// Where a NATS server's certificate is not trusted, or it has none, the command says which of its flags helps.
func TestANATSServerOfAnotherCertificateIsNamed(t *testing.T) {
	t.Parallel()
	signer, err := artifact.GenerateSigner()
	require.NoError(t, err)
	secret, err := signer.PEM()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "plane.pem")
	require.NoError(t, os.WriteFile(key, secret, 0o600))
	lent := httptest.NewTLSServer(http.NotFoundHandler())
	defer lent.Close()
	start := func(secured bool) string {
		opt := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}
		if secured {
			opt.TLSConfig = &tls.Config{Certificates: lent.TLS.Certificates, MinVersion: tls.VersionTLS13}
		}
		s, err := server.NewServer(opt)
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		require.True(t, s.ReadyForConnections(20*time.Second))
		_, address, _ := strings.Cut(s.ClientURL(), "://")
		return "tls://" + address
	}
	ended := func(args ...string) string {
		var stderr bytes.Buffer
		require.Equal(t, cli.Unavailable, run(context.Background(), args, strings.NewReader(""), &bytes.Buffer{}, &stderr))
		require.NotContains(t, stderr.String(), "is it running")
		return stderr.String()
	}
	strange, plain := start(true), start(false)
	serve := []string{"serve", "--data", filepath.Join(t.TempDir(), "d"), "--signing-key", key, "--http", "127.0.0.1:0", "--nats"}
	require.Contains(t, ended(append(serve, strange)...), "certificate signed by unknown authority; give its certificate's authority with --nats-ca FILE\n")
	require.Contains(t, ended("log", "verify", "--nats", strange), "certificate signed by unknown authority; give its certificate's authority with --ca FILE\n")
	require.Contains(t, ended(append(serve, plain)...), "it speaks no TLS: use nats://, without certificates\n")
	require.Contains(t, ended("log", "verify", "--nats", plain), "it speaks no TLS: use nats://, without certificates\n")
	// An authority asks for TLS, too, whatever the address says.
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: lent.Certificate().Raw}), 0o600))
	require.Contains(t, ended("log", "verify", "--nats", "nats"+strings.TrimPrefix(plain, "tls"), "--ca", authority), "it speaks no TLS: use nats://, without certificates\n")
}
