package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

// TestMain wants, of a whole run, that every documented answer was given by some
// test: nobody would know otherwise that it is as described. Not reached are
// 500, which needs a plane to break, and releases that inflate to too much.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // an eighth of the time of these tests is collecting garbage
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		whole := true
		for _, name := range []string{"test.run", "test.skip", "test.fuzz", "test.list"} {
			whole = whole && flag.Lookup(name).Value.String() == ""
		}
		if c, err := theContract(); err == nil && code == 0 && whole {
			for _, missed := range c.Unreached() {
				if !strings.HasSuffix(missed, " 500") && missed != "releaseArtifacts 413" {
					fmt.Fprintln(os.Stderr, "no test reaches what is documented:", missed)
					code = 1
				}
			}
		}
		os.Exit(code)
	}))
}

func TestRequestsUnderWayFinishWhenTheServerStops(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	entered, leave := make(chan bool), make(chan bool)
	s := api.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		entered <- true
		<-leave
		_, _ = io.WriteString(w, "done")
	})}
	served, answered := make(chan error, 1), make(chan string, 1)
	go func() { served <- s.Run(ctx, l) }()
	go func() {
		res, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answered <- string(b)
	}()
	<-entered
	stop()
	close(leave)
	require.Equal(t, "done", <-answered)
	require.NoError(t, <-served)
	http.DefaultClient.CloseIdleConnections()
}

// A client that sends all of a body that is too large before it listens must
// hear why, not find its connection cut.
func TestTheAnswerToALargeBodyArrives(t *testing.T) {
	p := newPlane(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- (&api.Server{Handler: p.Handler}).Run(ctx, l) }()
	const size = 10 << 20
	for _, length := range []string{fmt.Sprintf("Content-Length: %d", size), "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n", policies, length)
		require.NoError(t, err)
		body := strings.Repeat("x", size)
		if strings.HasPrefix(length, "Transfer") {
			body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body)
		}
		_, err = io.WriteString(conn, body)
		require.NoError(t, err, "the server takes all of it")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
		require.NoError(t, conn.Close())
	}
	stop()
	require.NoError(t, <-served)
}

// Who asks for much and reads nothing is let go of, with the memory that the answer takes; who
// reads gets all of it, and the connection serves him on.
func TestAnAnswerThatNobodyReadsIsGivenUp(t *testing.T) {
	p := newPlane(t)
	var lines strings.Builder
	for i := range 200 {
		labels := map[string]string{}
		for k := range 64 {
			labels[fmt.Sprintf("%s%d/%s", strings.Repeat(strings.Repeat("a", 55)+".", 4), k, strings.Repeat("b", 60))] = strings.Repeat("v", 250)
		}
		line, err := json.Marshal(map[string]any{"id": fmt.Sprintf("n%d", i), "labels": labels})
		require.NoError(t, err)
		lines.Write(append(line, '\n'))
	}
	require.Equal(t, 200, p.batch(lines.String()).Applied)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served, answered := make(chan error, 1), make(chan struct{}, 16)
	plain := api.New(p.deps) // it is not held against the document what was cut off
	server := api.Server{BodyTimeout: 50 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain.ServeHTTP(w, r)
		answered <- struct{}{}
	})}
	go func() { served <- server.Run(ctx, l) }()
	for _, coding := range []string{"", "Accept-Encoding: gzip;q=0\r\n"} {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err = fmt.Fprintf(conn, "GET %s?limit=200 HTTP/1.1\r\nHost: localhost\r\n%s\r\n", nodes, coding)
		require.NoError(t, err)
		select {
		case <-answered:
		case <-time.After(20 * time.Second):
			require.Fail(t, "the answer waits for ever")
		}
	}
	for range 2 {
		res, err := http.Get("http://" + l.Addr().String() + nodes + "?limit=200")
		require.NoError(t, err)
		var page resource.Page[resource.Node]
		require.NoError(t, json.NewDecoder(res.Body).Decode(&page))
		require.NoError(t, res.Body.Close())
		require.Len(t, page.Items, 200)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	require.NoError(t, <-served)
}

// Whatever such a client says, it costs a connection and its goroutine for a
// while, and then nothing.
func TestClientsThatNeverEndARequestAreLetGo(t *testing.T) {
	p := newPlane(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	const soon = 50 * time.Millisecond
	server := api.Server{Handler: p.Handler, HeaderTimeout: soon, BodyTimeout: soon}
	go func() { served <- server.Run(ctx, l) }()
	res, err := http.Get("http://" + l.Addr().String() + "/v1/status") // the server runs now
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	base := goleak.IgnoreCurrent()
	conns := map[string]net.Conn{}
	for _, request := range []string{
		"",
		"GET",
		"GET /v1/status HTTP/1.1\r\nHost: x\r\nX-Pad: xxx",
		"GET /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx",
		"GET /v1/status HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
		"GET /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx",
		"GET /v1/nodes/n1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx",
		"POST " + policies + " HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nx",
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, request)
		require.NoError(t, err)
		conns[request] = conn
	}
	for request, conn := range conns {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		_, err := io.Copy(io.Discard, conn)
		var late net.Error
		require.False(t, errors.As(err, &late) && late.Timeout(), "it is kept for ever: %s", request)
	}
	err = goleak.Find(base)
	for range 9 { // net/http closes some of them half a second later
		if err != nil {
			err = goleak.Find(base)
		}
	}
	require.NoError(t, err)
	stop()
	require.NoError(t, <-served)
	http.DefaultClient.CloseIdleConnections()
}

func TestAListenerThatFailsIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	err = (&api.Server{Handler: http.NotFoundHandler()}).Run(context.Background(), l)
	require.Error(t, err)
	require.False(t, errors.Is(err, http.ErrServerClosed))
}

// pipes is a listener of one connection.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// piped is a connection to a plane whose server ends with the test.
func piped(t *testing.T) net.Conn {
	p, l := newPlane(t), make(pipes, 1)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- (&api.Server{Handler: p.Handler}).Run(ctx, l) }()
	client, server := net.Pipe()
	l <- server
	t.Cleanup(func() {
		_ = client.Close()
		close(l)
		stop()
		<-served
	})
	return client
}

// docs/access.md says how long a body may bring nothing: as long, and not that
// once for the route and once for net/http.
func TestAStalledBodyIsHeldAsLongAsIsSaid(t *testing.T) {
	for _, path := range []string{policies, nodes + ":batch", "/nowhere"} {
		synctest.Test(t, func(t *testing.T) {
			client := piped(t)
			media := "application/json"
			if strings.HasSuffix(path, "batch") {
				media = "application/x-ndjson"
			}
			began := time.Now()
			_, err := fmt.Fprintf(client, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n{", path, media)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, client)
			require.NoError(t, err)
			require.Equal(t, 30*time.Second, time.Since(began).Round(time.Second), path)
		})
	}
}

// Who waits for leave to send a body (RFC 9110, 10.1.1) is told at once why it is not wanted,
// and who stalls in the middle of one is told so before the connection ends.
func TestARefusalDoesNotWaitForABodyThatNobodyAskedFor(t *testing.T) {
	const refused = "POST " + policies + " HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n"
	for request, after := range map[string]time.Duration{
		refused + "Expect: 100-continue\r\n\r\n": 0,
		refused + "\r\n{":                        30 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			client := piped(t)
			began := time.Now()
			_, err := io.WriteString(client, request)
			require.NoError(t, err)
			res, err := http.ReadResponse(bufio.NewReader(client), nil)
			require.NoError(t, err, request)
			require.Equal(t, http.StatusUnsupportedMediaType, res.StatusCode)
			require.True(t, res.Close, "what follows is no request")
			require.Equal(t, after, time.Since(began).Round(time.Second), request)
		})
	}
}

// Who only opens connections must not take the files that the plane needs: for one more the one
// that asks nothing goes, the oldest first, and none that somebody waits at.
func TestConnectionsThatAskNothingMakeRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes, 1)
		ctx, stop := context.WithCancel(t.Context())
		served, leave := make(chan error, 1), make(chan bool)
		s := api.Server{Connections: 3, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				<-leave
			}
			_, _ = io.WriteString(w, "done")
		})}
		go func() { served <- s.Run(ctx, l) }()
		defer func() {
			close(l)
			stop()
			<-served
		}()
		open := func() net.Conn {
			client, server := net.Pipe()
			t.Cleanup(func() { _ = client.Close() })
			l <- server
			synctest.Wait()
			return client
		}
		ask := func(conn net.Conn, path string) {
			_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			synctest.Wait()
		}
		answered := func(conn net.Conn) {
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, res.StatusCode)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			synctest.Wait()
		}
		ended := func(conn net.Conn) {
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			_, err := conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		}
		long := open()
		ask(long, "/long")
		silent, idle := open(), open()
		ask(idle, "/")
		answered(idle)
		newest := open()
		ask(newest, "/long")
		ended(silent)
		last := open()
		ask(last, "/long")
		ended(idle)
		ended(open()) // each of the others waits for an answer
		close(leave)
		for _, conn := range []net.Conn{long, newest, last} {
			answered(conn)
		}
		ask(newest, "/")
		answered(newest)
		again := open()
		ended(long) // the others asked later
		ask(again, "/")
		answered(again)
	})
}
