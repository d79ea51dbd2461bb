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
// object. What was stored of it is removed, or stays until Sweep where the server does not
// answer, or did not say whether it took the last of it.
//
// The client library has a Put of its own. It makes a publisher for each object,
// whose goroutine it leaves behind for ever when it is done before that has begun.
func (o *Objects) Put(ctx context.Context, name string, r io.Reader) (Object, error) {
	ctx, cancel := o.c.during(ctx, objectPatience)
	defer cancel()
	info := &jetstream.ObjectInfo{Bucket: o.name, NUID: rand.Text()}
	info.ObjectMeta = jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: objectChunk}}
	f := &flight{ctx: ctx, js: o.c.js, most: o.inFlight / objectChunk}
	if err := o.put(f, info, r); err != nil {
		if info.Digest == "" { // else its name is sent, and it may be stored whole
			o.abandon(context.WithoutCancel(ctx), f, o.object(info).chunk)
		}
		return Object{}, fmt.Errorf("store object %s in %s: %w", name, o.name, err)
	}
	return o.object(info), nil
}

// abandonPatience bounds each of two waits: for what is on its way, and until it is removed.
const abandonPatience = 2 * time.Second

// abandon removes what was stored of an object, once what is on its way has landed. A transfer
// that failed for want of room would take more of it each time.
func (o *Objects) abandon(ctx context.Context, f *flight, chunk string) {
	landing, cancel := o.c.during(ctx, abandonPatience)
	defer cancel()
	for f.ctx = landing; landing.Err() == nil && len(f.acks) > 0; {
		_ = f.land(0) // some fail, as the one did that ended the transfer
	}
	ctx, cancel = o.c.during(ctx, abandonPatience)
	defer cancel()
	s, err := o.c.js.Stream(ctx, o.stream)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(chunk))
	}
	if err != nil {
		o.c.log.Debug("parts of an object are left until they are swept", "stream", o.stream, "error", err)
	}
}

func (o *Objects) put(f *flight, info *jetstream.ObjectInfo, r io.Reader) error {
	sum := sha256.New()
	for subject := o.object(info).chunk; ; {
		chunk := make([]byte, objectChunk) // the library may send it again
		n, err := io.ReadFull(r, chunk)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return err
		}
		if n > 0 {
			_, _ = sum.Write(chunk[:n]) // never fails
			info.Chunks++
			info.Size += uint64(n)
			if err := f.send(&nats.Msg{Subject: subject, Data: chunk[:n]}); err != nil {
				return err
			}
		}
		if end {
			break
		}
	}
	if err := f.land(0); err != nil {
		return err
	}
	info.Digest = jetstream.GetObjectDigestValue(sum)
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(info); err != nil {
		return err
	}
	meta := &nats.Msg{
		Subject: chunksPrefix + o.name + namesInfix + base64.URLEncoding.EncodeToString([]byte(info.Name)), Data: bytes.TrimSpace(body.Bytes()),
		Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
	}
	if err := f.send(meta); err != nil {
		return err
	}
	if err := f.land(0); err != nil {
		return err
	}
	info.ModTime = time.Now().UTC()
	return nil
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
			f.acks = f.acks[1:]
			return err
		case <-late.C:
			return fmt.Errorf("%w: the server has stored nothing for %v", ErrUnknown, commitTimeout)
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		}
	}
	return nil
}
