package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// sseTLS measures the same events with TLS and, as its floor, without: from two
// processes of the product, in turn.
func sseTLS(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	secure := *e
	secure.dir = filepath.Join(e.dir, "tls")
	if err := os.Mkdir(secure.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if secure.identity, err = newIdentity(secure.dir); err != nil {
		return nil, err
	}
	plain, err := planeStage(ctx, e, true, "--durability", "relaxed")
	if err != nil {
		return nil, err
	}
	secure.binary = e.binary
	sealed, err := planeStage(ctx, &secure, true, "--durability", "relaxed")
	if err != nil {
		return nil, errors.Join(err, plain.close())
	}
	each, all, err := pour(ctx, e, sealed, plain)
	if err = errors.Join(err, sealed.close(), plain.close()); err != nil {
		return nil, err
	}
	const floor = "the same without TLS"
	one := figure("one each", "events/s", each[0].rate).beside(floor, each[1].rate).ratioAtLeast(0.7)
	one.note("%s connections, TLS 1.3, an ECDSA P-256 certificate", grouped(clients))
	return []line{*one, *figure("fan-out", "events/s", all[0].rate).beside(floor, all[1].rate).ratioAtLeast(0.7)}, nil
}
