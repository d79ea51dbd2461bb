package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

func TestALogThatCannotBeCompactedSaysWhy(t *testing.T) {
	for code, err := range map[string]error{
		api.CodeCompactionRunning: snapshot.ErrCompacting,
		api.CodeNotCompactable:    streams.ErrDenyPurge,
		api.CodeLogUnavailable:    context.DeadlineExceeded,
	} {
		p := newPlane(t, func(d *api.Deps) {
			d.Compact = func(context.Context, uint64, string) (snapshot.OriginManifest, error) {
				return snapshot.OriginManifest{}, err
			}
		})
		status := http.StatusConflict
		if code == api.CodeLogUnavailable {
			status = http.StatusServiceUnavailable
		}
		p.want(status, code, p.do("POST", "/v1/log:compact?seq=4", ""))
	}
	p := newPlane(t, func(d *api.Deps) {
		d.Compact = func(context.Context, uint64, string) (snapshot.OriginManifest, error) {
			return snapshot.OriginManifest{}, &streams.DamagedError{Damage: streams.DamageOrigin, To: 3, Detail: "the origin is gone"}
		}
	})
	damaged := p.do("POST", "/v1/log:compact?seq=4", "")
	p.want(http.StatusConflict, api.CodeNotCompactable, damaged)
	require.Contains(t, string(damaged.body), "the origin is gone; docs/recovery.md says what to do")
	p = newPlane(t, func(d *api.Deps) { d.Compact = nil })
	p.want(http.StatusServiceUnavailable, api.CodeLogUnavailable, p.do("POST", "/v1/log:compact?seq=4", ""))
}

// What is removed for good is named: no event has the number 0, and none is meant where none is
// given.
func TestACompactionSaysWhereTheLogIsToBegin(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) {
		d.Compact = func(context.Context, uint64, string) (snapshot.OriginManifest, error) {
			t.Error("nothing says what is kept")
			return snapshot.OriginManifest{}, nil
		}
	})
	for query, code := range map[string]string{"": "required", "?seq=": "required", "?seq=0": api.CodeBadParameter, "?seq=-1": api.CodeBadParameter} {
		a := serve(t, p.Handler, "POST", "/v1/log:compact"+query, "")
		require.Contains(t, string(a.body), `"code":"`+code+`"`, query)
		require.Contains(t, string(a.body), `"pointer":"/seq"`, query)
	}
}

// Who asks for what lies before the log's origin hears where it begins, and which archive
// has the rest.
func TestWhatLiesBeforeTheOriginIsGone(t *testing.T) {
	gone := &streams.CompactedError{Seq: 3, Origin: 9, Archive: "history"}
	p := newPlane(t, func(d *api.Deps) {
		d.Trail = func(context.Context, uint64, int) ([]api.Trailed, error) { return nil, gone }
		d.SeqAt = func(context.Context, time.Time) (uint64, error) { return 0, gone }
		d.Origin = func() (streams.Origin, bool) { return streams.Origin{Seq: 9, Archive: "history"}, true }
	})
	for _, target := range []string{
		"/v1/audit?after=2", "/v1/projects/" + project + "/audit", "/v1/log/seq?at=2026-11-20T12:00:00Z", "/v1/events?since=2026-11-20T12:00:00Z",
		"/v1/projects/" + project + "/events?since=2026-11-20T12:00:00Z",
	} {
		a := p.do("GET", target, "")
		p.want(http.StatusGone, api.CodeLogCompacted, a)
		require.Contains(t, string(a.body), "begins at 9", target)
		require.Contains(t, string(a.body), "the archive history", target)
	}
	require.Contains(t, string(p.do("GET", "/v1/status", "").body), `"begins":9,"archive":"history"`)
}
