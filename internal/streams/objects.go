package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Objects is a JetStream object store: large values by name, laid out as every
// NATS client knows it (nats object ls NAME). An object is whole or is not
// there for who reads: what is read must hash to what was written.
type Objects struct {
	c      *Conn
	name   string
	stream string
	store  jetstream.ObjectStore

	inFlight int // bytes of an object that the server has not stored yet, at most
}

// Object is one value, without its bytes.
type Object struct {
	Name  string
	Bytes uint64
	Time  time.Time // UTC, when it was stored
	chunk string    // subject of its bytes
}

const (
	objectsPrefix = "OBJ_" // of stream names
	chunksPrefix  = "$O."  // of subjects
	chunksInfix   = ".C."
	namesInfix    = ".M."
)

// objectPatience bounds the transfer of one object: not how long it may take,
// but how long a transfer that no longer moves is waited for.
const objectPatience = time.Hour

// OpenObjects finds the object store, or ErrNotFound.
func OpenObjects(ctx context.Context, c *Conn, name string) (*Objects, error) {
	return openObjects(ctx, c, name, func(ctx context.Context) (jetstream.ObjectStore, error) { return c.js.ObjectStore(ctx, name) })
}

// MakeObjects finds the object store, or makes it. The connection's Replicas
// apply.
func MakeObjects(ctx context.Context, c *Conn, name, description string) (*Objects, error) {
	o, err := OpenObjects(ctx, c, name)
	if !errors.Is(err, ErrNotFound) {
		return o, err
	}
	cfg := jetstream.ObjectStoreConfig{Bucket: name, Description: description, Storage: jetstream.FileStorage, Replicas: c.Replicas()}
	o, err = openObjects(ctx, c, name, func(ctx context.Context) (jetstream.ObjectStore, error) { return c.js.CreateObjectStore(ctx, cfg) })
	if errors.Is(err, jetstream.ErrBucketExists) {
		return OpenObjects(ctx, c, name) // another process was first, with other settings
	}
	return o, err
}

func openObjects(ctx context.Context, c *Conn, name string, open func(context.Context) (jetstream.ObjectStore, error)) (*Objects, error) {
	ctx, cancel := c.during(ctx, requestTimeout)
	defer cancel()
	store, err := open(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("open object store %s: %w", name, err)
	}
	return &Objects{c: c, name: name, stream: objectsPrefix + name, store: store, inFlight: objectInFlight}, nil
}

func (o *Objects) object(info *jetstream.ObjectInfo) Object {
	return Object{Name: info.Name, Bytes: info.Size, Time: info.ModTime.UTC(), chunk: chunksPrefix + o.name + chunksInfix + info.NUID}
}

// Get reads an object; ErrNotFound when there is none. The reader fails at its
// end when the bytes are not those that were stored. Close it.
func (o *Objects) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	ctx, cancel := o.c.during(ctx, objectPatience)
	r, err := o.store.Get(ctx, name)
	if err != nil {
		cancel()
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			err = ErrNotFound
		}
		return nil, fmt.Errorf("read object %s of %s: %w", name, o.name, err)
	}
	return &object{r, cancel}, nil
}

type object struct {
	jetstream.ObjectResult
	cancel func()
}

// Close lets go of what the reader holds.
func (o *object) Close() error {
	err := o.ObjectResult.Close()
	o.cancel()
	return err
}

// Has reports whether there is an object.
func (o *Objects) Has(ctx context.Context, name string) (bool, error) {
	ctx, cancel := o.c.during(ctx, requestTimeout)
	defer cancel()
	_, err := o.store.GetInfo(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for object %s of %s: %w", name, o.name, err)
	}
	return true, nil
}

// Delete removes an object. One that is not there is fine.
func (o *Objects) Delete(ctx context.Context, name string) error {
	ctx, cancel := o.c.during(ctx, requestTimeout)
	defer cancel()
	if err := o.store.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("delete object %s of %s: %w", name, o.name, err)
	}
	return nil
}

// List names all objects.
func (o *Objects) List(ctx context.Context) ([]Object, error) {
	ctx, cancel := o.c.during(ctx, requestTimeout)
	defer cancel()
	infos, err := o.store.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, fmt.Errorf("list objects of %s: %w", o.name, err)
	}
	all := make([]Object, 0, len(infos))
	for _, info := range infos {
		all = append(all, o.object(info))
	}
	return all, nil
}

// Sweep removes what transfers left that were never completed, and that nothing
// was added to for so long. It returns how many there were.
func (o *Objects) Sweep(ctx context.Context, age time.Duration) (swept int, err error) {
	all, err := o.List(ctx)
	if err != nil {
		return 0, err
	}
	whole := map[string]bool{}
	for _, x := range all {
		whole[x.chunk] = true
	}
	ctx, cancel := o.c.during(ctx, requestTimeout)
	defer cancel()
	s, err := o.c.js.Stream(ctx, o.stream)
	if err != nil {
		return 0, fmt.Errorf("sweep %s: %w", o.name, err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(chunksPrefix+o.name+chunksInfix+">"))
	if err != nil {
		return 0, fmt.Errorf("sweep %s: %w", o.name, err)
	}
	for subject := range info.State.Subjects {
		if whole[subject] {
			continue
		}
		last, err := s.GetLastMsgForSubject(ctx, subject)
		if err != nil || info.TimeStamp.Sub(last.Time) < age {
			continue // gone meanwhile, or perhaps under way
		}
		if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return swept, fmt.Errorf("sweep %s: %w", o.name, err)
		}
		swept++
	}
	return swept, nil
}
