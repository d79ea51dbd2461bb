package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
)

// ifNoneMatchParam is of a list that who has it already is not sent again.
var ifNoneMatchParam = headerTag(headerIfNoneMatch, "An ETag; an equal answer is 304.")

// tagged answers with a body and its ETag, or 304 to who has the body. The tag is weak:
// the body may be sent in one coding or another.
func tagged(c *call, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	sum := sha256.Sum256(b)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	h := c.w.Header()
	h.Set("ETag", "W/"+tag)
	h.Set("Cache-Control", "private, no-cache")
	if noneMatch(c.r.Header.Values(headerIfNoneMatch), tag) {
		h.Add("Vary", "Accept-Encoding")
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.coded(http.StatusOK, mediaJSON, append(b, '\n'))
	return nil
}
