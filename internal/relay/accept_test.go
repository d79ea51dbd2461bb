package relay

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

func TestTheReaderChoosesTheForm(t *testing.T) {
	registered := &Relay{opt: Options{Dialect: func(policy.NodeID) policy.Dialect { return policy.DialectLegacy }}}
	legacy, current, batch := form{dialect: policy.DialectLegacy}, form{dialect: policy.DialectCurrent}, form{dialect: policy.DialectBatch}
	for _, c := range []struct {
		accept []string
		want   form
	}{
		{nil, legacy},
		{[]string{""}, legacy},
		{[]string{"*/*"}, legacy},
		{[]string{"text/event-stream"}, legacy},
		{[]string{"text/event-stream; charset=utf-8"}, legacy},
		{[]string{"Text/Event-Stream;Dialect=batch"}, batch},
		{[]string{`text/event-stream;dialect="batch"`}, batch},
		{[]string{"text/event-stream;dialect=current"}, current},
		{[]string{"text/event-stream;dialect=legacy"}, legacy},
		{[]string{"text/event-stream;tables=true"}, form{policy.DialectLegacy, true}},
		{[]string{"text/event-stream;dialect=batch;tables=true"}, form{policy.DialectBatch, true}},
		{[]string{"text/event-stream;dialect=batch;tables=false"}, batch},
		{[]string{"application/json, text/event-stream;dialect=batch;q=0.9, */*;q=0.1"}, batch},
		{[]string{"application/json", "text/event-stream;dialect=batch"}, batch},
		{[]string{"text/event-stream;q=0.2, text/event-stream;dialect=batch;q=0.8"}, batch},
		{[]string{"text/event-stream;dialect=current, text/event-stream;dialect=batch"}, current},
		{[]string{"text/event-stream;dialect=tomorrow, text/event-stream;dialect=batch;q=0.5"}, batch},
		{[]string{`application/x;a="text/event-stream;dialect=x,y", text/event-stream;dialect=batch`}, batch},
	} {
		got, err := registered.formOf(&http.Request{Header: http.Header{"Accept": c.accept}}, "n")
		require.NoError(t, err, c.accept)
		require.Equal(t, c.want, got, c.accept)
	}
	for _, accept := range []string{
		"text/event-stream;dialect=tomorrow", "text/event-stream;dialect=Batch", "text/event-stream;dialect=", "text/event-stream;tables=yes",
		"text/event-stream;q=2;dialect=batch", "application/json, text/event-stream;dialect=1", "text/event-stream;tables=true;dialect=no",
	} {
		_, err := registered.formOf(&http.Request{Header: http.Header{"Accept": {accept}}}, "n")
		var not *NotAcceptableError
		require.ErrorAs(t, err, &not, accept)
	}
}
