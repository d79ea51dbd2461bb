package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An issuer that takes a connection, or begins an answer, and says nothing more is away, as one
// that nothing is heard of.
func TestAnIssuerThatSaysNothingIsAway(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/begun/") {
			_, _ = w.Write([]byte(`{"issuer":`))
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	defer silent.Close()
	for _, issuer := range []string{silent.URL, silent.URL + "/begun"} {
		_, err := NewIssuer(t.Context(), issuer, "plane", &http.Client{Timeout: 50 * time.Millisecond})
		require.ErrorAs(t, err, new(*AwayError), issuer)
		require.ErrorContains(t, err, "issuer "+issuer)
	}
}
