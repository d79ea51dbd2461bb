package api

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const (
	maxLine      = 64 << 10 // bytes of a line without its end
	chunkEvents  = 1000     // events published together
	chunkBytes   = 8 << 20  // and about their bytes, where they are large
	chunkRepeats = 10_000   // and lines that say what one of them says
	maxRejected  = 10_000   // rejected lines an answer lists
	maxDetail    = 1 << 10  // bytes that it says of each: a name in a line may fill the line
	maxPointer   = 256      // bytes of them that say where
	deadlineEach = 64       // lines between two moves of the read deadline, and two looks whether anybody waits
)

// batch is one run through a body of node lines. Lines become chunks of
// events; while the log and the fold take one chunk, the next is read, so
// memory holds two chunks however long the body is.
type batch struct {
	model      views
	reads      *reads
	writes     *writes
	c          *call
	maxLine    int                     // bytes of a line without its end
	maxMessage int                     // bytes of an event, where events are large
	kind       string                  // of the events
	one        func(line []byte) error // takes a line
	project    uuid.UUID
	lines      int
	begun      bool // lines were written, or, in a dry run, would be
	result     resource.BatchResult
	before     *chunk     // published, verdicts not collected
	now        *chunk     // being read
	rehearsed  *rehearsal // of a dry run; else nil
}

func (h *nodeHandlers) putAll(c *call) error {
	b := &batch{model: h.model, reads: h.reads, writes: h.writes, c: c, maxLine: maxLine, kind: policy.TypeNodeUpdated}
	b.one = b.take
	return b.serve()
}

// serve reads the lines of the request and answers what became of them.
func (b *batch) serve() error {
	c := b.c
	project, err := c.pathID("project")
	if err != nil {
		return err
	}
	if err := c.mediaType(mediaNDJSON); err != nil {
		return err
	}
	c.expectBytes()
	defer c.expectNothing()
	came := &counted{ReadCloser: c.r.Body}
	c.r.Body = came
	body, err := c.inflated()
	if err != nil {
		return err
	}
	if c.r.Header.Get("Content-Encoding") != "" {
		body = &capped{r: body, came: came}
	}
	// Unchanged is said of a node as it is at some moment after the request
	// came, so the view must hold what was written before it.
	if err := b.reads.catchUp(c, 0); err != nil {
		return err
	}
	b.project, b.before, b.now = project, newChunk(), newChunk()
	if b.result.Rejected = []resource.RejectedLine{}; c.dry {
		b.rehearsed = newRehearsal(project)
	}
	if err := b.run(body); err != nil {
		return err
	}
	byLine := func(x, y resource.RejectedLine) int { return cmp.Compare(x.Line, y.Line) }
	slices.SortFunc(b.result.Rejected, byLine)
	return c.json(http.StatusOK, b.result)
}

func (b *batch) run(body io.Reader) error {
	in := bufio.NewReaderSize(body, b.maxLine+2) // with its end
	for {
		if b.lines%deadlineEach == 0 {
			if err := b.c.r.Context().Err(); err != nil {
				return err
			}
			b.c.expectBytes()
		}
		line, err := in.ReadSlice('\n')
		if err != nil && errors.Is(err, bufio.ErrBufferFull) {
			line, err = nil, skipLine(in)
			b.lines++
			b.rejectLong()
		} else if len(line) > 0 {
			b.lines++
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if err := b.line(text); err != nil {
				return err
			}
		}
		if len(b.result.Rejected) > maxRejected {
			return b.tooMany()
		}
		if len(b.now.events) >= chunkEvents || b.now.bytes >= chunkBytes || len(b.now.repeats) >= chunkRepeats || err != nil {
			if err := b.turn(); err != nil {
				return err
			}
		}
		if err != nil {
			return b.finish(err)
		}
	}
}

// tooMany ends a batch of which too much was rejected. What was read is written first.
func (b *batch) tooMany() error {
	if err := b.turn(); err != nil {
		return err
	}
	if err := b.collect(b.before); err != nil {
		return err
	}
	return problem(http.StatusUnprocessableEntity, CodeTooManyRejections,
		"more than %d of the first %d lines were rejected; the others of these are applied", maxRejected, b.lines)
}

// skipLine reads to the end of a line.
func skipLine(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func (b *batch) line(text []byte) error {
	if len(text) > b.maxLine {
		b.rejectLong()
		return nil
	}
	return b.one(text)
}

func (b *batch) rejectLong() {
	b.reject(b.lines, "", CodeBodyTooLarge, fmt.Sprintf("a line is at most %d bytes", b.maxLine))
}

// take makes an event of one line, if it changes anything.
func (b *batch) take(line []byte) error {
	id, facts, err := policy.DecodeNodeLine(line)
	if err != nil {
		b.rejectInvalid(id, err)
		return nil
	}
	write, pending := b.pending(id)
	switch {
	case pending && sameFacts(projector.NodeInfo{Node: policy.Node{
		Labels: write.facts.Labels, Addresses: write.facts.Addresses,
	}}, facts):
		b.now.repeats = append(b.now.repeats, repeat{b.lines, write})
		return nil
	case !pending:
		if same, given := b.rehearsedFacts(id, facts); same {
			b.result.Unchanged++
			return nil
		} else if given {
			break
		}
		var had projector.NodeInfo
		var known bool
		var err error
		b.model.Read(func(v *projector.View) {
			if had, known = v.Node(id); known {
				err = b.writes.owned(v, policy.NodeUpdated{Project: b.project, Node: id})
			}
		})
		if err != nil {
			b.reject(b.lines, id, projector.CodeNodeIDTaken, err.Error())
			return nil
		}
		if known && sameFacts(had, facts) {
			b.result.Unchanged++
			return nil
		}
	}
	return b.add(line, id, facts)
}

func (b *batch) add(line []byte, id policy.NodeID, facts policy.Facts) error {
	event, err := b.writes.id(b.c, b.project, "batch:"+strconv.Itoa(b.lines))
	if err != nil {
		return err
	}
	b.append(line, &lineWrite{line: b.lines, node: id, facts: facts},
		policy.NodeUpdated{ID: event, Project: b.project, Node: id, Labels: facts.Labels, Addresses: facts.Addresses}, 0)
	return nil
}

// finish ends a batch whose body ended with err: well, if that is its end.
func (b *batch) finish(err error) error {
	if collected := b.collect(b.before); collected != nil {
		return collected
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	var p *resource.Problem
	if errors.As(err, &p) {
		return p
	}
	return problem(http.StatusBadRequest, policy.CodeMalformedJSON,
		"the body broke off after line %d: %v; lines before it are applied, and sending them again changes nothing", b.lines, err)
}

func (b *batch) reject(line int, id policy.NodeID, code, detail string) {
	b.result.Rejected = append(b.result.Rejected,
		resource.RejectedLine{Line: line, ID: string(id), Code: code, Detail: shortened(detail, maxDetail)})
}

func (b *batch) rejectInvalid(id policy.NodeID, err error) {
	var faults policy.Violations
	if !errors.As(err, &faults) || len(faults) == 0 {
		b.reject(b.lines, id, policy.CodeMalformedJSON, err.Error())
		return
	}
	first := faults[0]
	if shape, ok := faults.Shape(); ok {
		first = shape
	}
	b.reject(b.lines, id, first.Code, at(shortened(first.Pointer, maxPointer))+": "+first.Detail)
}

// shortened is the beginning of a text that is longer than so many bytes, and else the text.
func shortened(text string, long int) string {
	if len(text) <= long {
		return text
	}
	return strings.ToValidUTF8(text[:long], "") + "..."
}
