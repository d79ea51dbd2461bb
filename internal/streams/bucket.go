package streams

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/backoff"
)

// BucketOptions has one field that must be set: Name.
type BucketOptions struct {
	Name        string // letters, digits, _ and -
	Description string // shown to operators
	// MarkerTTL above 0 lets a key be given a time to live (at least 1 s, as is this). When it is over, a marker takes
	// the key's place for so long and tells who watches.
	MarkerTTL time.Duration
	History   int  // values kept of each key, 1..64; 0 is 1
	Memory    bool // made in memory
	Volatile  bool // what it keeps may be lost when all servers stop: one that exists may be in memory
}

// Bucket is a JetStream key-value bucket, laid out as every NATS client knows
// it: nats kv ls NAME shows it. What it answers comes from the stream's leader,
// so a value that was written is read by everybody from then on.
type Bucket struct {
	c       *Conn
	name    string
	stream  string
	prefix  string // of subjects
	created time.Time
}

// Entry is one value of a key, or that the key is gone.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64    // rises with every change of any key of the bucket
	Time     time.Time // UTC, the server's, of this revision
	Gone     bool      // deleted, or its time to live is over
}

const (
	bucketPrefix  = "KV_"  // of stream names
	subjectPrefix = "$KV." // of subjects

	headerOperation = "KV-Operation" // of a deletion
	headerMarker    = "Nats-Marker-Reason"
	operationDelete = "DEL"
)

var (
	bucketName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	bucketKey  = regexp.MustCompile(`^[-/_=.a-zA-Z0-9]+$`)
)

// OpenBucket makes the bucket, or checks the one that exists: *ConfigError. The
// connection's Replicas apply.
func OpenBucket(ctx context.Context, c *Conn, opt BucketOptions) (*Bucket, error) {
	if !bucketName.MatchString(opt.Name) {
		return nil, fmt.Errorf("open bucket %q: a name has letters, digits, _ and - only", opt.Name)
	}
	info, _, err := c.openStream(ctx, bucketConfig(opt, c.Replicas()), func(cfg jetstream.StreamConfig) []Fault {
		return bucketFaults(cfg, opt)
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", opt.Name, err)
	}
	return &Bucket{
		c:       c,
		name:    opt.Name,
		stream:  bucketPrefix + opt.Name,
		prefix:  subjectPrefix + opt.Name + ".",
		created: info.Created.UTC(),
	}, nil
}

// bucketConfig is the layout that NATS clients give a bucket.
func bucketConfig(opt BucketOptions, replicas int) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name:              bucketPrefix + opt.Name,
		Description:       opt.Description,
		Subjects:          []string{subjectPrefix + opt.Name + ".>"},
		Replicas:          replicas,
		MaxMsgsPerSubject: int64(max(1, opt.History)),
		Discard:           jetstream.DiscardNew,
		DenyDelete:        true,
		AllowRollup:       true,
		AllowDirect:       true,
		Metadata:          map[string]string{},
	}
	if opt.Memory {
		cfg.Storage = jetstream.MemoryStorage
	}
	if opt.MarkerTTL > 0 {
		cfg.AllowMsgTTL, cfg.SubjectDeleteMarkerTTL = true, max(time.Second, opt.MarkerTTL)
	}
	return cfg
}

func bucketFaults(cfg jetstream.StreamConfig, opt BucketOptions) []Fault {
	var f faults
	f.subjects(cfg.Subjects, []string{subjectPrefix + opt.Name + ".>"})
	if opt.Memory || opt.Volatile {
		cfg.Storage = jetstream.FileStorage // either will do
	}
	f.kept(cfg)
	f.unless(cfg.MaxMsgsPerSubject >= int64(max(1, opt.History)), "max_msgs_per_subject", cfg.MaxMsgsPerSubject,
		fmt.Sprintf("%d or more: so many values of a key are kept", max(1, opt.History)))
	f.unless(!cfg.DiscardNewPerSubject, "discard_new_per_subject", cfg.DiscardNewPerSubject, "false: a newer value replaces the older one")
	f.unless(opt.MarkerTTL == 0 || cfg.AllowMsgTTL, "allow_msg_ttl", cfg.AllowMsgTTL, "true: keys have a time to live")
	f.unless(opt.MarkerTTL == 0 || cfg.SubjectDeleteMarkerTTL > 0, "subject_delete_marker_ttl", cfg.SubjectDeleteMarkerTTL,
		"1s or more: watchers are notified of the end of a key")
	return f
}

// Name is the bucket's.
func (b *Bucket) Name() string { return b.name }

// Get returns a key's value and its revision; ErrNotFound when there is none.
func (b *Bucket) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	e, err := b.entry(ctx, key)
	if err == nil && e.Gone {
		err = ErrNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read key %s of bucket %s: %w", key, b.name, err)
	}
	return e.Value, e.Revision, nil
}

// Create gives a key its first value, also after it is gone. ErrWrongSequence
// when it has one. ttl 0 is for ever; the server counts whole seconds. After
// ErrUnknown the value may or may not be stored: Get tells.
func (b *Bucket) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error) {
	revision, err = b.put(ctx, key, value, 0, ttl)
	if !errors.Is(err, ErrWrongSequence) || inFlight(err) {
		return revision, err
	}
	e, gerr := b.entry(ctx, key)
	if gerr != nil || !e.Gone {
		return 0, err
	}
	return b.put(ctx, key, value, e.Revision, ttl)
}

// Update replaces a key's value, if revision is still its last one;
// ErrWrongSequence when it is not. ttl counts anew, 0 is for ever. After
// ErrUnknown the value may or may not be stored: Get tells.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	return b.put(ctx, key, value, revision, ttl)
}

func (b *Bucket) put(ctx context.Context, key string, value []byte, expect uint64, ttl time.Duration) (uint64, error) {
	return b.store(ctx, key, Outgoing{Body: value, Expect: expect, HasExpect: true, TTL: ttl})
}

// Delete takes a key's value away, if revision is still its last one;
// ErrWrongSequence when it is not.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) error {
	_, err := b.store(ctx, key, Outgoing{Header: []string{headerOperation, operationDelete}, Expect: revision, HasExpect: true})
	return err
}

func (b *Bucket) store(ctx context.Context, key string, o Outgoing) (uint64, error) {
	if err := checkKey(key); err != nil {
		return 0, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	o.Subject = b.prefix + key
	patience, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var wait backoff.Backoff
	for {
		a, err := b.c.store(ctx, newEncoder("").encode(&o, 0), requestTimeout)
		if errors.Is(err, ErrBusy) && wait.Pause(patience) == nil {
			continue // nothing is stored: a cluster may not have heard yet who leads a bucket that was just made
		}
		if err != nil {
			return 0, fmt.Errorf("write key %s of bucket %s: %w", key, b.name, err)
		}
		return a.Seq, nil
	}
}

func checkKey(key string) error {
	if !bucketKey.MatchString(key) || strings.HasPrefix(key, ".") || strings.HasSuffix(key, ".") || strings.Contains(key, "..") {
		return fmt.Errorf("key %q: a key has letters, digits, and -/_=. between them", key)
	}
	return nil
}

// List returns the keys that have a value, by name, and upTo: Watch after it
// misses nothing.
func (b *Bucket) List(ctx context.Context) (entries []Entry, upTo uint64, err error) {
	fail := func(err error) ([]Entry, uint64, error) {
		return nil, 0, fmt.Errorf("list bucket %s: %w", b.name, err)
	}
	info, subjects, err := b.subjects(ctx)
	if err != nil {
		return fail(err)
	}
	if err := b.same(info); err != nil {
		return fail(err)
	}
	for _, subject := range subjects {
		e, err := b.entry(ctx, strings.TrimPrefix(subject, b.prefix))
		if errors.Is(err, ErrNotFound) || err == nil && e.Gone {
			continue
		}
		if err != nil {
			return fail(err)
		}
		entries = append(entries, e)
	}
	return entries, info.State.LastSeq, nil
}

// subjects asks the stream's leader, for as many of them as it has.
func (b *Bucket) subjects(ctx context.Context) (*jetstream.StreamInfo, []string, error) {
	ctx, cancel := b.c.during(ctx, requestTimeout)
	defer cancel()
	s, err := b.c.js.Stream(ctx, b.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil, fmt.Errorf("stream %s: %w", b.stream, ErrNotFound)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(b.prefix+">"))
	if err != nil {
		return nil, nil, err
	}
	names := make([]string, 0, len(info.State.Subjects))
	for name := range info.State.Subjects {
		names = append(names, name)
	}
	slices.Sort(names)
	return info, names, nil
}

// Watch yields the changes above revision after, in order and in batches, until
// ctx ends: after 0 begins with what every key has now. Of several changes of
// one key that came quickly the last alone may be yielded. It outlives
// restarts of the server. The iteration ends with *DamagedError when the bucket
// was made anew.
func (b *Bucket) Watch(ctx context.Context, after uint64) iter.Seq2[[]Entry, error] {
	f := follower{c: b.c, stream: b.stream, next: after + 1, verify: b.same}
	return func(yield func([]Entry, error) bool) {
		for msgs, err := range f.follow(ctx) {
			if err != nil {
				yield(nil, fmt.Errorf("watch bucket %s: %w", b.name, err))
				return
			}
			changes := make([]Entry, len(msgs))
			for i, m := range msgs {
				changes[i] = b.entryOf(m)
			}
			if !yield(changes, nil) {
				return
			}
		}
	}
}

func (b *Bucket) same(info *jetstream.StreamInfo) error {
	if !info.Created.Equal(b.created) {
		return &DamagedError{Detail: fmt.Sprintf("bucket %s was made anew %s; open it again", b.name, info.Created.UTC().Format(time.RFC3339Nano))}
	}
	return nil
}

func (b *Bucket) entryOf(m Message) Entry {
	return Entry{
		Key: strings.TrimPrefix(m.Subject, b.prefix), Value: m.Body, Revision: m.Seq, Time: m.Time,
		Gone: m.Get(headerOperation) != "" || m.Get(headerMarker) != "",
	}
}

// entry asks the leader: a direct get is answered by replicas that lag, too.
func (b *Bucket) entry(ctx context.Context, key string) (Entry, error) {
	if err := checkKey(key); err != nil {
		return Entry{}, err
	}
	m, err := ofLeader(ctx, b.c, directGet{LastFor: b.prefix + key}, b.stream)
	if err != nil {
		return Entry{}, err
	}
	return b.entryOf(m), nil
}
