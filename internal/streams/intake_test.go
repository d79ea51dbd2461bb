package streams

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// admitted is a native client's connection.
func admitted(t *testing.T, s *Server, token string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.Token(token))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// A producer that waits for nothing holds up nobody: what it sent before is not before what
// others write. It is appended in its order.
func TestWhatAProducerSentHoldsUpNobodyElse(t *testing.T) {
	s := startServer(t, ServerOptions{Listen: "127.0.0.1:0", Guard: appender{}})
	log := openLog(t, connect(t, ConnectOptions{Server: s}))
	const many = 10_000
	loud, root := admitted(t, s, "producer"), admitted(t, s, "root")
	for i := range many {
		require.NoError(t, loud.Publish(fmt.Sprintf("edict.log.%s.node.n%d", project, i), []byte("x")))
	}
	require.NoError(t, loud.FlushTimeout(within20s)) // the server has it all
	answer, err := root.Request("edict.log."+uuid.NewString()+".node.a", []byte("x"), within20s)
	require.NoError(t, err)
	var a ack
	require.NoError(t, json.Unmarshal(answer.Data, &a))
	require.Less(t, a.Seq, uint64(many))
	require.Eventually(t, func() bool {
		last, err := log.Head(within(t))
		return err == nil && last > a.Seq+100
	}, within20s, time.Millisecond)
	next := 0
	for seq := a.Seq + 1; seq <= a.Seq+100; seq++ {
		m, err := log.Get(within(t), seq)
		require.NoError(t, err)
		n := 0
		_, err = fmt.Sscanf(m.Subject, "edict.log."+project.String()+".node.n%d", &n)
		require.NoError(t, err)
		if next > 0 {
			require.Equal(t, next, n)
		}
		next = n + 1
	}
}

// What a project has no room for is refused as the server refuses what it cannot take, and
// who is to know of it does.
func TestAProducerThatWaitsForNothingIsRefused(t *testing.T) {
	s := startServer(t, ServerOptions{Listen: "127.0.0.1:0", Guard: appender{}, maxBatch: 4})
	log := openLog(t, connect(t, ConnectOptions{Server: s}))
	var over atomic.Int64
	s.OnOverflow(func(of uuid.UUID) {
		if of == project {
			over.Add(1)
		}
	})
	const many = 2000
	loud := admitted(t, s, "producer")
	answers, err := loud.SubscribeSync(loud.NewRespInbox())
	require.NoError(t, err)
	for range many {
		require.NoError(t, loud.PublishRequest("edict.log."+project.String()+".node.a", answers.Subject, []byte("x")))
	}
	stored, refused := uint64(0), int64(0)
	for range many {
		m, err := answers.NextMsg(within20s)
		require.NoError(t, err)
		var said struct {
			Seq   uint64
			Error *struct {
				ErrCode int `json:"err_code"`
			}
		}
		require.NoError(t, json.Unmarshal(m.Data, &said))
		if said.Error == nil {
			stored++
			require.Equal(t, stored, said.Seq)
			continue
		}
		require.Equal(t, codeTooManyRequests, said.Error.ErrCode)
		refused++
	}
	require.Positive(t, refused)
	require.Equal(t, refused, over.Load())
	last, err := log.Head(within(t))
	require.NoError(t, err)
	require.Equal(t, stored, last)
	s.Discard(project)
	s.Discard(uuid.New())
}

// A batch of a producer is one, however many messages it has.
func TestABatchOfAProducerIsWhole(t *testing.T) {
	s := startServer(t, ServerOptions{Listen: "127.0.0.1:0", Guard: appender{}})
	openLog(t, connect(t, ConnectOptions{Server: s}))
	nc := admitted(t, s, "producer")
	const many = 500
	message := func(i int) *nats.Msg {
		m := nats.NewMsg(fmt.Sprintf("edict.log.%s.node.n%d", project, i))
		m.Header[headerBatchID], m.Header[headerBatchSeq] = []string{"b"}, []string{fmt.Sprint(i)}
		return m
	}
	answer, err := nc.RequestMsg(message(1), within20s)
	require.NoError(t, err)
	require.Empty(t, answer.Data)
	for i := 2; i < many; i++ {
		require.NoError(t, nc.PublishMsg(message(i)))
	}
	last := message(many)
	last.Header[headerBatchCommit] = []string{"1"}
	answer, err = nc.RequestMsg(last, within20s)
	require.NoError(t, err)
	var a ack
	require.NoError(t, json.Unmarshal(answer.Data, &a))
	require.Equal(t, ack{Seq: many, Batch: "b", Count: many, Stream: a.Stream}, a)

	for range 2 { // a server that starts again takes as much
		require.NoError(t, s.Restart())
		nc = admitted(t, s, "producer")
		require.Eventually(t, func() bool {
			m, err := nc.Request(last.Subject, nil, time.Second)
			return err == nil && json.Unmarshal(m.Data, &a) == nil && a.Seq > many
		}, within20s, time.Millisecond)
	}
}

// While others write, each message of a producer is followed by a pause, in which the log is
// the others'. Of a batch, only what has the server write waits for it.
func TestAProducerPausesWhileOthersWrite(t *testing.T) {
	s := startServer(t, ServerOptions{Listen: "127.0.0.1:0", Guard: appender{}})
	openLog(t, connect(t, ConnectOptions{Server: s}))
	pauses := make(chan func(), 10)
	s.intake.least = 0
	s.intake.after = func(d time.Duration, f func()) {
		assert.LessOrEqual(t, d, intakePauseMax)
		pauses <- f
	}
	alone := func() {
		s.writing.mu.Lock()
		defer s.writing.mu.Unlock()
		s.writing.others = time.Time{}
	}
	nc := admitted(t, s, "producer")
	answers, err := nc.SubscribeSync(nc.NewRespInbox())
	require.NoError(t, err)
	next := func() string {
		m, err := answers.NextMsg(within20s)
		require.NoError(t, err)
		return string(m.Data)
	}
	publish := func(headers ...string) {
		m := nats.NewMsg("edict.log." + project.String() + ".node.a")
		m.Reply = answers.Subject
		for i := 0; i < len(headers); i += 2 {
			m.Header.Set(headers[i], headers[i+1])
		}
		require.NoError(t, nc.PublishMsg(m))
	}
	publish()
	publish()
	require.Contains(t, next()+next(), `"seq":2`)
	require.Empty(t, pauses, "nobody else writes")

	s.writing.asks(uuid.New(), time.Now().Add(time.Hour)) // however long the test takes
	publish()
	require.Contains(t, next(), `"seq":3`)
	resume := <-pauses
	publish(headerBatchID, "b", headerBatchSeq, "1")
	require.NoError(t, nc.FlushTimeout(within20s))
	require.Eventually(t, func() bool { return s.intake.waits(project) == 1 }, within20s, tick)
	resume()
	require.Empty(t, next(), "the batch has begun")
	resume = <-pauses
	for i := 2; i < 10; i++ {
		publish(headerBatchID, "b", headerBatchSeq, fmt.Sprint(i))
		require.Empty(t, next(), "goes on during the pause")
	}
	publish(headerBatchID, "b", headerBatchSeq, "10", headerBatchCommit, "1")
	require.Eventually(t, func() bool { return s.intake.waits(project) == 1 }, within20s, tick)
	resume()
	require.Contains(t, next(), `"count":10`)
	resume = <-pauses
	publish()
	require.Eventually(t, func() bool { return s.intake.waits(project) == 1 }, within20s, tick)
	alone()
	resume()
	require.Contains(t, next(), `"seq":14`)
	require.Empty(t, pauses)
	require.Eventually(t, func() bool { return s.intake.waits(project) == 0 }, within20s, tick)
}

// A producer that opens batches and commits none takes no other's place: neither of a batch,
// nor in its turn to write. What the server would take for the first message of a batch
// is one here.
func TestBatchesThatAProducerLeavesOpen(t *testing.T) {
	s := startServer(t, ServerOptions{Listen: "127.0.0.1:0", Guard: appender{}, maxBatch: 5})
	log := openLog(t, connect(t, ConnectOptions{Server: s}))
	nc, root := admitted(t, s, "producer"), admitted(t, s, "root")
	send := func(id, seq string, data []byte, more ...string) (code int) {
		m := nats.NewMsg("edict.log." + project.String() + ".node.a")
		m.Header[headerBatchID], m.Header[headerBatchSeq] = []string{id}, []string{seq}
		for _, key := range more {
			m.Header[key] = []string{"1"}
		}
		m.Data = data
		answer, err := nc.RequestMsg(m, within20s)
		require.NoError(t, err)
		if len(answer.Data) == 0 {
			return 0
		}
		var said struct {
			Error struct {
				ErrCode int `json:"err_code"`
			}
		}
		require.NoError(t, json.Unmarshal(answer.Data, &said))
		return said.Error.ErrCode
	}
	for i := range 60 {
		code := send(fmt.Sprint("b", i), []string{"1", "01"}[i%2], nil)
		if i < intakeOpen {
			require.Zero(t, code)
		} else {
			require.Equal(t, codeBatchBusy, code)
		}
	}
	var events []Append
	for i := range 5 {
		events = append(events, Append{Event: node("other", i)})
	}
	_, err := log.PublishAll(within(t), events)
	require.NoError(t, err, "the plane's own batches go on")

	require.Zero(t, send("b0", "2", nil))
	require.Zero(t, send("b0", "3", nil, headerBatchCommit))
	require.Zero(t, send("b60", "1", nil), "the place of what was committed")
	require.Equal(t, codeBatchIncomplete, send("b0", "2", nil), "of a batch that is not open")

	for i := 2; i <= 5; i++ {
		require.Zero(t, send("b1", fmt.Sprint(i), nil))
	}
	abandoned, err := root.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>")
	require.NoError(t, err)
	require.NoError(t, root.FlushTimeout(within20s))
	require.Equal(t, codeBatchTooLarge, send("b1", "6", nil))
	m, err := abandoned.NextMsg(within20s)
	require.NoError(t, err)
	require.Contains(t, string(m.Data), `"b1"`, "the server keeps it no longer, either")

	// What names a batch by an empty id is none: each is written, so each waits for its turn.
	step, _ := (&lane{}).step(&nats.Msg{Header: nats.Header{headerBatchID: {""}, headerBatchSeq: {"2"}}})
	require.Equal(t, batchNone, step)

	s.intake.giveUp(time.Now().Add(time.Second))
	require.Zero(t, s.intake.opened(), "what has no message for long is forgotten")
}

// opened is how many batches are open.
func (in *intake) opened() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := 0
	for _, l := range in.lanes {
		n += len(l.open)
	}
	return n + in.open
}

// waits is how many messages of a project wait.
func (in *intake) waits(project uuid.UUID) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	if l := in.lanes[project.String()]; l != nil {
		return len(l.waiting)
	}
	return 0
}
