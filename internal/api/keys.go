package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
)

// Codes of a rotation.
const (
	// CodeKeyInTransition: the rotation before is still being announced to nodes.
	CodeKeyInTransition = "key_in_transition"
	// CodeNextKeyMissing: there is no new key, or not every worker holds it.
	CodeNextKeyMissing = "next_key_missing"
	// CodeInvalidTransition: the transition is no time, or out of bounds.
	CodeInvalidTransition = "invalid_transition"
)

// DefaultTransition is how long nodes accept the key before, where nobody says
// otherwise.
const DefaultTransition = 24 * time.Hour

// Rotation is a request to replace the plane's key.
type Rotation struct {
	Transition    time.Duration // how long nodes accept the key before
	Principal     string        // who asks; empty: nobody said
	CorrelationID string
}

// Rotator replaces the plane's key, and returns the keys that are trusted then.
// What it refuses is a *RotationError.
type Rotator func(context.Context, Rotation) ([]resource.Key, error)

// RotationError is why a rotation was refused. Nothing was changed.
type RotationError struct{ Code, Detail string }

// Error is the detail.
func (e *RotationError) Error() string { return e.Detail }

var errNoKeys = errors.New("it has no keys")

// keyHandlers serve the plane's keys.
type keyHandlers struct {
	keys    func() []resource.Key
	rotator Rotator
	gate    *writeGate
}

func (h *keyHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/keys", ID: "listKeys", Tag: "plane", Needs: access.Known, early: true,
			Summary: "List the plane's public keys, current and still trusted",
			Answers: jsonAnswer(http.StatusOK, resource.Items[resource.Key]{}),
			serve:   h.list,
		},
		{
			Method: http.MethodPost, Pattern: "/v1/keys:rotate", ID: "rotateKey", Tag: "plane", Needs: access.AdminPlane,
			Summary: "Replace the plane's key: the new one is announced to nodes under the one before, and they accept both for a while",
			Params: []Param{
				queryText("transition", "How long nodes accept the key before, such as 24h, which it is when absent; 1m to 8760h."),
				whoParam, corrParam,
			},
			Answers:  jsonAnswer(http.StatusOK, resource.Items[resource.Key]{}),
			Problems: []string{CodeKeyInTransition, CodeNextKeyMissing, CodeInvalidTransition, CodeStarting, CodeStorageLow},
			serve:    h.rotate,
		},
	}
}

func (h *keyHandlers) list(c *call) error {
	out := resource.Items[resource.Key]{Items: []resource.Key{}}
	if h.keys != nil {
		out.Items = append(out.Items, h.keys()...)
	}
	return c.json(http.StatusOK, out)
}

func (h *keyHandlers) rotate(c *call) error {
	if h.rotator == nil {
		return starting(errNoKeys)
	}
	if err := h.gate.check(); err != nil {
		return err
	}
	r := Rotation{Transition: DefaultTransition, Principal: c.author(), CorrelationID: c.correlation}
	if text := c.r.URL.Query().Get("transition"); text != "" {
		var err error
		if r.Transition, err = time.ParseDuration(text); err != nil {
			return broken(http.StatusUnprocessableEntity, CodeInvalidTransition, "/transition", "transition is no time; want one such as 24h")
		}
	}
	keys, err := h.rotator(c.r.Context(), r)
	var refused *RotationError
	switch {
	case errors.As(err, &refused) && refused.Code == CodeInvalidTransition:
		return broken(http.StatusUnprocessableEntity, refused.Code, "/transition", "%s", refused.Detail)
	case errors.As(err, &refused):
		return problem(http.StatusConflict, refused.Code, "%s", refused.Detail)
	case err != nil:
		return starting(err)
	}
	return c.json(http.StatusOK, resource.Items[resource.Key]{Items: keys})
}
