package faults

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), // of the default client, idle
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}
