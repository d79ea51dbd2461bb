package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Path is where the console is; every path below it that names no file is a view of it.
const Path = "/ui/"

//go:embed dist
var dist embed.FS

// policyOfContent lets the page run its own files and ask its own origin, and lets no page
// show it in a frame. Nothing inline is run: a text that got into the page as markup would
// do nothing.
const policyOfContent = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// asset is a file of the console as it is sent.
type asset struct {
	media  string
	etag   string
	body   []byte
	zipped func() ([]byte, error) // made when first asked for: most starts of a plane serve nobody the console
}

// assets are the files of dist, by name.
var assets = sync.OnceValues(func() (map[string]asset, error) {
	all := map[string]asset{}
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		body, err := dist.ReadFile("dist/" + e.Name())
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(body)
		all[e.Name()] = asset{mime.TypeByExtension(path.Ext(e.Name())), `"` + hex.EncodeToString(sum[:12]) + `"`, body, sync.OnceValues(func() ([]byte, error) { return zip(body) })}
	}
	return all, nil
})

func zip(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// Handler serves the console at Path, where it sends browsers that ask for the address alone,
// and everything else by next. takesGzip says of an Accept-Encoding whether gzip is taken.
func Handler(next http.Handler, takesGzip func(accepted []string) bool) (http.Handler, error) {
	all, err := assets()
	if err != nil {
		return nil, fmt.Errorf("the console's files: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ours := strings.CutPrefix(r.URL.Path, Path)
		switch {
		case r.URL.Path+"/" == Path:
			to := url.URL{Path: Path, RawQuery: r.URL.RawQuery} // a link names its project there
			http.Redirect(w, r, to.String(), http.StatusPermanentRedirect)
		case r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			w.Header().Set("Vary", "Accept")
			http.Redirect(w, r, Path, http.StatusFound)
		case ours && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			a, ok := all[name]
			if !ok {
				a = all["index.html"]
			}
			a.serve(w, r, takesGzip(r.Header.Values("Accept-Encoding")))
		default:
			next.ServeHTTP(w, r)
		}
	}), nil
}

func (a asset) serve(w http.ResponseWriter, r *http.Request, zip bool) {
	h := w.Header()
	h.Set("Content-Security-Policy", policyOfContent)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // asked again each time, which an ETag makes cheap
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", a.etag)
	h.Set("Content-Type", a.media)
	if strings.Contains(r.Header.Get("If-None-Match"), a.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := a.body
	if zip {
		if zipped, err := a.zipped(); err == nil {
			body = zipped
			h.Set("Content-Encoding", "gzip")
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client may be gone
	}
}
