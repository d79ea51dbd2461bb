package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

var onlyIfMatchParam = headerTag(headerIfMatch, "ETags, one of which the present state must have; *: it must exist. Otherwise 412 precondition_failed, and nothing is written.")

// errMoved ends an append with: the log has a newer event about the same thing than
// the one that the write was checked against.
var errMoved = errors.New("moved")

// condition is what If-Match says (RFC 9110, 13.1.1); the zero one says nothing.
type condition struct {
	any  bool // *: there is a state
	tags []string
}

// condition reads If-Match.
func (c *call) condition() (only condition, err error) {
	lines := c.r.Header.Values(headerIfMatch)
	if len(lines) > 0 && strings.Trim(strings.Join(lines, ""), ", \t") == "" {
		return only, problem(http.StatusBadRequest, CodeBadHeader, `%s is empty: send an ETag as it came, with its quotation marks, or *`, headerIfMatch)
	}
	for _, tag := range strings.Split(strings.Join(lines, ","), ",") {
		switch tag = strings.TrimSpace(tag); {
		case tag == "":
		case tag == "*":
			only.any = true
		case isTag(strings.TrimPrefix(tag, "W/")):
			only.tags = append(only.tags, tag)
		default:
			return only, problem(http.StatusBadRequest, CodeBadHeader, `%s: %.80q is no ETag: send one as it came, with its quotation marks, or *`, headerIfMatch, tag)
		}
	}
	if only.any && len(only.tags) > 0 {
		return only, problem(http.StatusBadRequest, CodeBadHeader, "%s: * stands alone", headerIfMatch)
	}
	return only, nil
}

// isTag reports whether a text is an ETag of the form that this API gives.
func isTag(s string) bool {
	return len(s) > 2 && s[0] == '"' && s[len(s)-1] == '"' && !strings.Contains(s[1:len(s)-1], `"`)
}

// given reports whether there is a condition at all, and named whether it names states.
func (o condition) given() bool { return o.any || len(o.tags) > 0 }
func (o condition) named() bool { return len(o.tags) > 0 }

// holds says why a write must not be made of a state with this ETag; "": there is
// no state. A weak ETag names no state.
func (o condition) holds(tag string) error {
	switch {
	case !o.given(), o.any && tag != "", slices.Contains(o.tags, tag):
		return nil
	case tag == "":
		return problem(http.StatusPreconditionFailed, CodePreconditionFailed, "%s: there is nothing here that it could name", headerIfMatch)
	}
	return problem(http.StatusPreconditionFailed, CodePreconditionFailed,
		"the present state has the ETag %s, not %s: read it, decide again, and send the change with its ETag", tag, strings.Join(o.tags, ", "))
}

// version is the version that a change is for, of what has versions: the present one,
// unless the condition names others. Then the fold judges: the state may be newer than
// this worker knows, and a retry under its key names what was before it.
func (o condition) version(present uint64) (uint64, error) {
	if !o.named() || present > 0 && slices.Contains(o.tags, versionTag(present)) {
		return present, nil
	}
	for _, tag := range o.tags {
		if n, err := strconv.ParseUint(strings.Trim(tag, `"`), 10, 64); err == nil && n > 0 {
			return n, nil
		}
	}
	if present == 0 {
		return 0, o.holds("")
	}
	return 0, o.holds(versionTag(present))
}

// lost is what a write fails with whose fold refused it for a change that came between
// the check and the append.
func (o condition) lost(err error) error {
	if !o.named() {
		return err
	}
	return outrun(err)
}

// outrun is lost of a write that was for one state alone.
func outrun(err error) error {
	var pr *resource.Problem
	if !errors.As(err, &pr) || pr.Code != projector.CodeRevisionConflict {
		return err
	}
	return problem(http.StatusPreconditionFailed, CodePreconditionFailed, "it is in another state: %s", pr.Detail)
}

// policyTag is the ETag of a policy: a revision says all of it.
func policyTag(head uuid.UUID) string { return strconv.Quote(head.String()) }

// versionTag is the ETag of what has a version: the facts of a node, a principal, an
// admission policy.
func versionTag(version uint64) string { return strconv.Quote(strconv.FormatUint(version, 10)) }

// provided is commit of an event that is appended only if the log has none about
// the same thing that check has not seen: the log compares and stores in one step.
// check runs again, at a growing distance, for as long as others write about it, and a
// write may take.
func (w *writes) provided(c *call, e policy.Event, check func(v *projector.View) error) (projector.Verdict, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), w.patience)
	defer cancel()
	var pace backoff.Backoff
	for {
		last, err := w.log.LastOf(ctx, e)
		if err != nil {
			return projector.Verdict{}, problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log did not say what stands in it: %v", err)
		}
		if last > 0 {
			if err := w.reads.catchUp(c, last); err != nil {
				return projector.Verdict{}, err
			}
		}
		if err := w.reads.check(c, check); err != nil {
			return projector.Verdict{}, err
		}
		v, err := w.append(c, streams.Append{Event: e, After: last}, false)
		if !errors.Is(err, errMoved) {
			return v, err
		}
		if pace.Pause(ctx) != nil {
			return projector.Verdict{}, contended()
		}
	}
}

func contended() error {
	return problem(http.StatusServiceUnavailable, CodeContended, "others changed it each time that this change was tried; try again")
}
