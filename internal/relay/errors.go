package relay

import "time"

// NotReadyError means that this process cannot serve nodes now; answer 503 with
// Retry-After.
type NotReadyError struct{ Detail string }

func (e *NotReadyError) Error() string { return "not ready: " + e.Detail }

// Pauses between attempts that may succeed later.
const (
	serverRetry = 250 * time.Millisecond // of what NATS servers did not answer
	leaseRetry  = 20 * time.Millisecond  // the lease runs out
	rosterRetry = 500 * time.Millisecond // the bucket of leases is opened again
)
