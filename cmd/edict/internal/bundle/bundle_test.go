package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

// secretTexts are secrets in the forms that a plane's own words might have them in.
var secretTexts = map[string]string{
	"bm9kZXNlY3JldG5vZGVzZWNyZXQ":                    `nodes: nsk_plexd_bm9kZXNlY3JldG5vZGVzZWNyZXQ is refused`,
	"mfzxg2lmnrqw4zdjozxw43tfoqqa":                   `the agent shows psb_edict_aaaaaaaaaaaaaaaaaaaaaaaaaa_node_mfzxg2lmnrqw4zdjozxw43tfoqqa`,
	"edt_k3yk3yk3yk3y":                               `{"detail": "token edt_k3yk3yk3yk3y is not known"}`,
	"hunter2":                                        `nats: dial nats://worker:hunter2@10.0.0.1:4222: refused`,
	"eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhbmEifQ.c2lnbg": `issuer: eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhbmEifQ.c2lnbg has expired`,
	"SUAKLO7NYGXK5G7XG3DVVH2JPRDWJBDR5LVQYBVPTSOSDWZJ5H4VN4W5PE": "seed SUAKLO7NYGXK5G7XG3DVVH2JPRDWJBDR5LVQYBVPTSOSDWZJ5H4VN4W5PE",

	"MC4CAQAwBQYDK2VwBCIEIJ": "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ\n-----END PRIVATE KEY-----",
	"dXNlcjpwYXNzd29yZA==":   "Authorization: Basic dXNlcjpwYXNzd29yZA==",
	"correct horse":          `{"client_secret": "correct horse", "kept": "this"}`,
	"s3cr3tk3y":              "aws_secret=s3cr3tk3y",
	"ss-of-two":              `nats: dial nats://worker:pa@ss-of-two@10.0.0.2:4222: refused`,
	"s-quoted":               `{"next": "edict doctor --server 'https://ana:it'\\''s-quoted@plane'"}`,
	"behind the quote":       `{"password": "in front \"behind the quote\"", "kept": "that"}`,
	"what is known":          "a token of another form: what is known",
}

func TestABundleHasNoSecrets(t *testing.T) {
	var parts []Part
	for _, text := range secretTexts {
		said := func(context.Context) ([]byte, error) { return []byte(text), nil }
		fails := func(context.Context) ([]byte, error) { return nil, errors.New(text) }
		parts = append(parts, Part{Name: "said.txt", Read: said}, Part{Name: "failed.txt", Read: fails})
	}
	var out bytes.Buffer
	missing, err := Write(t.Context(), &out, "b", time.Unix(0, 0), parts, Redactor{Known: []string{"what is known", ""}})
	require.NoError(t, err)
	require.Equal(t, len(secretTexts), missing)

	plain := contents(t, &out)
	for secret := range secretTexts {
		require.NotContains(t, plain, secret)
	}
	for _, kept := range []string{"10.0.0.1:4222: refused", "has expired", `"kept": "this"`, `"kept": "that"`, "10.0.0.2:4222: refused", `{"client_secret": "[REDACTED]", `, "aws_secret=[REDACTED]"} {
		require.Contains(t, plain, kept, "what is no secret helps")
	}
}

// What a page of metrics or a status says of tokens is none.
func TestWhatIsNoSecretStays(t *testing.T) {
	for _, text := range []string{
		`edict_access_failures_total{reason="token"} 3`,
		`{"check": "token", "state": "ok", "detail": "none is shown"}`,
		`{"nats": "nats://10.0.0.1:4222", "workers": [{"name": "w1", "http": "10.0.0.1:8080"}]}`,
		`chmod 600 root.token`,
	} {
		require.Equal(t, text, Redactor{}.Text(text))
	}
}

// What a plane does badly now is among the newest of the events that it refused. Why one was
// refused may quote a label, an address or a slug, which a bundle is not to have.
func TestTheNewestRejectionsSayNothingOfWhatEventsHeld(t *testing.T) {
	const all = 1000
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/rejected" {
			_ = json.NewEncoder(w).Encode(resource.Status{Head: 3 * all})
			return
		}
		after, _ := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		var page resource.Page[resource.Rejection]
		for seq := after/3*3 + 3; seq <= 3*all; seq += 3 {
			if len(page.Items) == limit {
				next := strconv.FormatUint(seq-3, 10)
				page.NextCursor = &next
				break
			}
			page.Items = append(page.Items, resource.Rejection{
				Seq: seq, Code: "invalid", Subject: "edict.log.p.node.n", Detail: `/addresses/0: "10.77.66.999" is not an IP address`,
				Violations: []resource.Fault{{Code: "invalid_address", Pointer: "/labels/site-of-ana", Detail: `"10.77.66.999" is not an IP address`}},
			})
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer plane.Close()
	c, err := client.New(plane.URL, client.Options{Patience: -1})
	require.NoError(t, err)
	parts := OfPlane(c)
	text, err := parts[slices.IndexFunc(parts, func(p Part) bool { return p.Name == "rejected.json" })].Read(t.Context())
	require.NoError(t, err)
	for _, there := range []string{`"seq": 3000`, `"seq": 2403`, "edict.log.p.node.n", "invalid_address"} {
		require.Contains(t, string(text), there)
	}
	for _, not := range []string{`"seq": 2400`, "10.77.66", "ana"} {
		require.NotContains(t, string(text), not)
	}
}

// contents are the files of a bundle, one behind the other.
func contents(t *testing.T, r io.Reader) string {
	t.Helper()
	plain, err := gzip.NewReader(r)
	require.NoError(t, err)
	files := tar.NewReader(plain)
	var all bytes.Buffer
	for {
		_, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		require.NoError(t, err)
		_, err = io.Copy(&all, files)
		require.NoError(t, err)
	}
}
