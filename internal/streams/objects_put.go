package streams

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	objectChunk    = 128 << 10 // bytes of a message, as NATS clients cut objects
	objectInFlight = 32 << 20  // of Objects.inFlight
)

// Put stores what r yields under a name that has nothing yet, and returns once
// the server has acknowledged all of it. After an error nobody may refer to the
// object: parts of it may be stored, until Sweep.
//
// The client library has a Put of its own. It makes a publisher for each object,
// whose goroutine it leaves behind for ever when it is done before that has begun.
func (o *Objects) Put(ctx context.Context, name string, r io.Reader) (Object, error) {
	ctx, cancel := o.c.during(ctx, objectPatience)
	defer cancel()
	info, err := o.put(ctx, name, r)
	if err != nil {
		return Object{}, fmt.Errorf("store object %s in %s: %w", name, o.name, err)
	}
	return o.object(info), nil
}

func (o *Objects) put(ctx context.Context, name string, r io.Reader) (*jetstream.ObjectInfo, error) {
	info := &jetstream.ObjectInfo{Bucket: o.name, NUID: rand.Text()}
	info.ObjectMeta = jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: objectChunk}}
	f := &flight{ctx: ctx, js: o.c.js, most: o.inFlight / objectChunk}
	sum := sha256.New()
	for subject := chunksPrefix + o.name + chunksInfix + info.NUID; ; {
		chunk := make([]byte, objectChunk) // the library may send it again
		n, err := io.ReadFull(r, chunk)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return nil, err
		}
		if n > 0 {
			_, _ = sum.Write(chunk[:n]) // never fails
			info.Chunks++
			info.Size += uint64(n)
			if err := f.send(&nats.Msg{Subject: subject, Data: chunk[:n]}); err != nil {
				return nil, err
			}
		}
		if end {
			break
		}
	}
	if err := f.land(0); err != nil {
		return nil, err
	}
	info.Digest = jetstream.GetObjectDigestValue(sum)
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(info); err != nil {
		return nil, err
	}
	meta := &nats.Msg{
		Subject: chunksPrefix + o.name + namesInfix + base64.URLEncoding.EncodeToString([]byte(name)), Data: bytes.TrimSpace(body.Bytes()),
		Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
	}
	if err := f.send(meta); err != nil {
		return nil, err
	}
	if err := f.land(0); err != nil {
		return nil, err
	}
	info.ModTime = time.Now().UTC()
	return info, nil
}

// flight is what was sent and is not acknowledged yet, oldest first.
type flight struct {
	ctx  context.Context
	js   jetstream.JetStream
	most int // of acks
	acks []jetstream.PubAckFuture
}

// send sends one message more, as soon as there is room for it.
func (f *flight) send(m *nats.Msg) error {
	if err := f.land(f.most - 1); err != nil {
		return err
	}
	ack, err := f.js.PublishMsgAsync(m)
	if err != nil {
		return err
	}
	f.acks = append(f.acks, ack)
	return nil
}

// land waits until at most so many are left.
func (f *flight) land(left int) error {
	if err := f.ctx.Err(); err != nil {
		return context.Cause(f.ctx)
	}
	for ; len(f.acks) > left; f.acks = f.acks[1:] {
		late := time.NewTimer(commitTimeout)
		defer late.Stop()
		select {
		case <-f.acks[0].Ok():
		case err := <-f.acks[0].Err():
			return err
		case <-late.C:
			return fmt.Errorf("%w: the server has stored nothing for %v", ErrUnknown, commitTimeout)
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		}
	}
	return nil
}
