package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// hubCommand makes this binary the plain hub, in a process of its own.
const hubCommand = "plain-hub"

// hub is the least that serves event streams: topics in memory with a short
// past, no signature, no store, no gate. POST /publish sends its body to every
// topic; GET /events/<topic> streams one, after Last-Event-ID when given.
type hub struct {
	mu     sync.Mutex
	seq    uint64
	topics map[string]*topic
}

// hubPast is how many messages of a topic are kept for who comes back.
const hubPast = 16

type topic struct {
	past []message // oldest first
	subs map[chan message]struct{}
}

type message struct {
	seq  uint64
	data []byte
}

// readingHubCommand makes this binary a plain hub that also has a log in its process, as
// the plane has, and reads and decodes what is published to it.
const readingHubCommand = "reading-hub"

// serveReadingHub serves until the process is asked to end.
func serveReadingHub(readyFile string) error {
	ctx := context.Background()
	dir := filepath.Join(filepath.Dir(readyFile), "reading")
	server, err := streams.StartServer(streams.ServerOptions{Dir: dir, Listen: "127.0.0.1:0", Relaxed: true})
	if err != nil {
		return err
	}
	conn, err := streams.Connect(ctx, streams.ConnectOptions{Server: server, Name: "hub"})
	if err != nil {
		return err
	}
	log, err := streams.OpenLog(ctx, conn, streams.LogOptions{})
	if err != nil {
		return err
	}
	go func() {
		for batch, err := range log.Follow(ctx, 1) {
			for _, m := range batch {
				if err == nil {
					_, err = policy.Decode(m.Body)
				}
			}
			if err != nil {
				say("hub: %v", err)
				os.Exit(1)
			}
		}
	}()
	return serveReadyFloor(readyFile, ready{NATS: server.ClientURL()}, newHub().handler(), "", "")
}

// serveFloor serves on a free port until the process is asked to end; with TLS
// when there is a certificate.
func serveFloor(readyFile string, h http.Handler, cert, key string) error {
	return serveReadyFloor(readyFile, ready{}, h, cert, key)
}

// serveReadyFloor is serveFloor that also says what r has.
func serveReadyFloor(readyFile string, r ready, h http.Handler, cert, key string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.HTTP = l.Addr().String()
	if err := writeReady(readyFile, r); err != nil {
		return err
	}
	s := &http.Server{Handler: h} //nolint:gosec // loopback, for the length of a measure
	if cert == "" {
		return s.Serve(l)
	}
	s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // HTTP/1.1, as the plane
	return s.ServeTLS(l, cert, key)
}

func newHub() *hub { return &hub{topics: map[string]*topic{}} }

func (h *hub) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /publish", h.publish)
	mux.HandleFunc("POST /publish/{topic}", h.publish)
	mux.HandleFunc("GET /events/{topic}", h.events)
	return mux
}

func (h *hub) publish(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[r.PathValue("topic")]; t != nil {
		h.send(t, data)
		return
	}
	for _, t := range h.topics {
		h.send(t, data)
	}
}

// send keeps a message and hands it to the topic's readers. h.mu is held.
func (h *hub) send(t *topic, data []byte) {
	h.seq++
	m := message{h.seq, data}
	if len(t.past) == hubPast {
		t.past = append(t.past[:0], t.past[1:]...)
	}
	t.past = append(t.past, m)
	for sub := range t.subs {
		sub <- m
	}
}

// subscribe returns what a topic's reader missed after last, and where the rest
// will come.
func (h *hub) subscribe(name string, last uint64) (missed []message, sub chan message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	if t == nil {
		t = &topic{subs: map[chan message]struct{}{}}
		h.topics[name] = t
	}
	for _, m := range t.past {
		if last > 0 && m.seq > last {
			missed = append(missed, m)
		}
	}
	sub = make(chan message, hubPast)
	t.subs[sub] = struct{}{}
	return missed, sub
}

// unsubscribe lets a publisher that waits for this reader go on.
func (h *hub) unsubscribe(name string, sub chan message) {
	gone := make(chan struct{})
	go func() {
		for {
			select {
			case <-sub:
			case <-gone:
				return
			}
		}
	}()
	h.mu.Lock()
	delete(h.topics[name].subs, sub)
	h.mu.Unlock()
	close(gone)
}

func (h *hub) events(w http.ResponseWriter, r *http.Request) {
	last, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64) // none: from now
	name := r.PathValue("topic")
	missed, sub := h.subscribe(name, last)
	defer h.unsubscribe(name, sub)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	if rc.Flush() != nil {
		return
	}
	var buf []byte
	send := func(m message) {
		buf = fmt.Appendf(buf[:0], "id: %d\nevent: policy_updated\ndata: %s\n\n", m.seq, m.data)
		_, _ = w.Write(buf) // the flush tells
	}
	for _, m := range missed {
		send(m)
	}
	for rc.Flush() == nil {
		select {
		case <-r.Context().Done():
			return
		case m := <-sub:
			send(m)
		}
		for more := true; more; {
			select {
			case m := <-sub:
				send(m)
			default:
				more = false
			}
		}
	}
}
