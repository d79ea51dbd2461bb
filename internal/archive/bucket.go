package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucketScheme begins the URL of an archive in a bucket of a store that speaks S3.
const bucketScheme = "s3://"

// InBucket reports whether an archive lies in a bucket, by its name.
func InBucket(path string) bool { return strings.HasPrefix(path, bucketScheme) }

// Where the store is, as the environment of its usual clients says.
const (
	envEndpoint = "AWS_ENDPOINT_URL"
	publicStore = "https://s3.amazonaws.com"
)

// BucketError means that a store did not do what an archive asked of it.
type BucketError struct {
	URL string
	Err error
}

// Error says where, and what.
func (e *BucketError) Error() string { return fmt.Sprintf("%s: %v", e.URL, e.Err) }

func (e *BucketError) Unwrap() error { return e.Err }

// bucket is a place in a store that speaks S3: a bucket, and what its objects' names begin
// with. An object is there whole or not at all. Nobody is locked out, because nobody can
// tell who crashed from who waits: of two that write, both name their segments by what
// the archive ends with, and a store takes a name once.
type bucket struct {
	ctx    context.Context //nolint:containedctx // of the command: an archive is read as a sequence, and a place is asked for no longer
	store  *minio.Client
	name   string
	prefix string // "", or it ends in /
	busy   error  // for who finds a name taken
}

// openBucket reads a URL s3://bucket/prefix, or of one segment. The store, its region and
// the credentials are what the environment, or the files of its usual clients say.
func openBucket(ctx context.Context, text string) (at *bucket, only string, err error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(text, bucketScheme), "/")
	// The prefix is no part of a URL, in which %20 is a space: clients of stores take it as it
	// is written. But what a URL may have besides is not meant, and may be a secret.
	if name == "" || strings.ContainsAny(name, "@:%") || strings.ContainsAny(text, "?#") || strings.ContainsFunc(text, unicode.IsControl) {
		return nil, "", errors.New("an archive in a bucket is named s3://BUCKET or s3://BUCKET/PREFIX, without credentials, which come from the environment or a file (docs/archive.md)")
	}
	prefix = strings.Trim(prefix, "/")
	if _, ok := firstOf(prefix); ok {
		prefix, only = path.Split(prefix)
		prefix = strings.Trim(prefix, "/")
	}
	if prefix != "" {
		prefix += "/"
	}
	at = &bucket{name: name, prefix: prefix}
	if err = at.openStore(ctx, patience); err != nil {
		return nil, "", &BucketError{at.String(), err}
	}
	return at, only, nil
}

// openStore has the store be asked until ctx ends, or it was silent for longer than patience.
func (b *bucket) openStore(ctx context.Context, patience time.Duration) (err error) {
	s := &silence{patience: patience}
	b.ctx, s.giveUp = context.WithCancelCause(ctx)
	b.store, err = newStore(s)
	return err
}

func newStore(s *silence) (*minio.Client, error) {
	endpoint := publicStore
	for _, name := range []string{envEndpoint + "_S3", envEndpoint} {
		if v := os.Getenv(name); v != "" {
			endpoint = v
			break
		}
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: want the URL of a store, such as %s", envEndpoint, publicStore)
	}
	region := os.Getenv("AWS_REGION")
	if region == "" {
		region = os.Getenv("AWS_DEFAULT_REGION")
	}
	secure := u.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	transport.DisableKeepAlives = true // a request is for a whole segment
	transport.DialContext, transport.ResponseHeaderTimeout = s.dial(transport.DialContext), 0
	return minio.New(u.Host, &minio.Options{
		Secure: secure, Region: region, Transport: transport,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
	})
}

func (b *bucket) String() string { return bucketScheme + b.name + "/" + b.prefix }

// fault says where an error is, and whether something is not there.
func (b *bucket) fault(name string, err error) error {
	if err == nil {
		return nil
	}
	if b.silent() {
		return &BucketError{b.String() + name, errSilent}
	}
	switch minio.ToErrorResponse(err).Code {
	case minio.NoSuchKey, minio.NoSuchBucket:
		err = fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	case minio.AccessDenied, minio.SignatureDoesNotMatch, minio.InvalidAccessKeyID:
		err = fmt.Errorf("%w: %w", err, fs.ErrPermission)
	}
	return &BucketError{b.String() + name, err}
}

// silent reports whether the store was given up.
func (b *bucket) silent() bool { return errors.Is(context.Cause(b.ctx), errSilent) }

func (b *bucket) names() (names []string, err error) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel() // ends the listing
	for o := range b.store.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix}) {
		if o.Err != nil {
			return nil, b.fault("", o.Err)
		}
		names = append(names, strings.TrimPrefix(o.Key, b.prefix))
	}
	if err := b.ctx.Err(); err != nil {
		if b.silent() {
			err = b.fault("", err)
		}
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (b *bucket) open(name string) (io.ReadCloser, error) {
	o := &object{b: b, name: name}
	if err := o.ask(); err != nil {
		return nil, err
	}
	return o, nil
}

// object is read as one file, however often its connection breaks.
type object struct {
	b     *bucket
	name  string
	body  io.ReadCloser
	at    int64
	size  int64
	etag  string
	tries int // since a byte came
}

// mostTries bounds how often in a row an object is asked for.
const mostTries = 5

// ask asks for what was not read yet, of the object that was begun.
func (o *object) ask() error {
	var opt minio.GetObjectOptions
	if o.at > 0 {
		if err := errors.Join(opt.SetRange(o.at, 0), opt.SetMatchETag(o.etag)); err != nil {
			return err
		}
	}
	core := minio.Core{Client: o.b.store}
	body, info, _, err := core.GetObject(o.b.ctx, o.b.name, o.b.prefix+o.name, opt)
	if err != nil {
		return o.b.fault(o.name, err)
	}
	if o.body = body; o.at == 0 {
		o.size, o.etag = info.Size, info.ETag
	}
	return nil
}

func (o *object) Read(to []byte) (n int, err error) {
	n, err = o.body.Read(to)
	o.at += int64(n)
	if n > 0 {
		o.tries = 0
	}
	switch {
	case err == nil, errors.Is(err, io.EOF) && o.at >= o.size:
		return n, err
	case n > 0:
		return n, nil // it ends again
	}
	if o.tries++; o.tries >= mostTries || o.b.ctx.Err() != nil {
		return 0, o.b.fault(o.name, errors.Join(err, o.b.ctx.Err()))
	}
	o.body.Close()
	if err := o.ask(); err != nil {
		return 0, err
	}
	return 0, nil
}

func (o *object) Close() error { return o.body.Close() }

func (b *bucket) lock(busy error) (release func(), err error) {
	b.busy = busy
	ok, err := b.store.BucketExists(b.ctx, b.name)
	if err == nil && !ok {
		err = minio.ErrorResponse{Code: minio.NoSuchBucket, Message: "there is no such bucket: make it first"}
	}
	return func() {}, b.fault("", err)
}

// create gathers a file on the disk: how long it is must be known when it is sent.
func (b *bucket) create(name string) (part, error) {
	f, err := os.CreateTemp("", "edict-archive-")
	if err != nil {
		return nil, err
	}
	// It goes with the process.
	return &upload{File: f, b: b, name: name}, os.Remove(f.Name())
}

// upload is a part of a bucket.
type upload struct {
	*os.File
	b    *bucket
	name string
}

func (u *upload) keep() error { return errors.Join(u.send(), u.Close()) }

func (u *upload) send() error {
	size, err := u.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = u.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	opt := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: size <= mostAtOnce}
	if opt.DisableMultipart {
		opt.SetMatchETagExcept("*") // whoever came first keeps the name
	} else if err = u.taken(size); !errors.Is(err, fs.ErrNotExist) {
		return err // of parts the client sends no condition that a store heeds
	}
	_, err = u.b.store.PutObject(u.b.ctx, u.b.name, u.b.prefix+u.name, u.File, size, opt)
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		if err = u.taken(size); err == nil {
			return nil
		}
	}
	return u.b.fault(u.name, err)
}

// mostAtOnce is the size of the largest object that a store takes in one request, in bytes.
const mostAtOnce = 5 << 30

// taken is nil where the object that has the name is this one: an answer that was lost
// has it sent again.
func (u *upload) taken(size int64) error {
	o, err := u.b.open(u.name)
	if err != nil {
		return err
	}
	defer o.Close()
	if _, err := u.Seek(0, io.SeekStart); err != nil {
		return err
	}
	same, err := equal(o, io.LimitReader(u.File, size))
	if err == nil && !same {
		err = fmt.Errorf("the name is taken: %w", u.b.busy)
	}
	return err
}

func (u *upload) drop() error { return u.Close() }

// equal reports whether two readers have the same bytes.
func equal(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, aerr := io.ReadFull(a, x)
		m, berr := io.ReadFull(b, y)
		if string(x[:n]) != string(y[:m]) {
			return false, nil
		}
		for _, err := range []error{aerr, berr} {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return false, err
			}
		}
		if aerr != nil || berr != nil {
			return true, nil
		}
	}
}
