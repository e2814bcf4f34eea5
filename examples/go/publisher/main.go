// Command publisher publishes the lines of standard input and waits for the ack of each. Whatever was not
// acknowledged in time is sent again: at least once.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"liftlog.example/go/liftlog"

	"github.com/nats-io/nats.go"
)

const (
	ackTimeout = 5 * time.Second
	sweepEvery = 20 * time.Millisecond
	lineMax    = 8 << 20
)

// result is what became of one line.
type result struct {
	Line        int    `json:"line"`
	Outcome     string `json:"outcome"`
	Stream      string `json:"stream,omitempty"`
	Partition   int64  `json:"partition"`
	Offset      int64  `json:"offset"`
	Epoch       int64  `json:"epoch"`
	Incarnation int64  `json:"incarnation"`
	Attempts    int    `json:"attempts"`
	Error       string `json:"error,omitempty"`
}

// answer is an ack or a refusal, as docs/wire.md has them.
type answer struct {
	Stream                                string
	Offset, Partition, Epoch, Incarnation *int64
	Count                                 *int
	Error                                 *struct{ Description string }
	Liftlog                               struct{ Outcome string }
}

// message is a line on its way, or a batch of them.
type message struct {
	line     int // the first
	lines    int
	out      *nats.Msg
	attempts int
	due      time.Time // when it is sent again
	giveUp   time.Time
	problem  string
}

type publisher struct {
	bus      *nats.Conn
	inbox    string
	timeout  time.Duration
	waiting  map[int]*message
	lines    int // so many are under way
	out      *bufio.Writer
	failed   int
	total    int
	firstWhy string
}

func main() {
	url := flag.String("nats", "nats://127.0.0.1:4222", "URL of NATS")
	subject := flag.String("subject", "", "where to publish to")
	keyed := flag.Bool("keyed", false, "a line is KEY, a tab, VALUE")
	window := flag.Int("window", 256, "how many lines may be under way; 1 keeps their order when some are sent again")
	batch := flag.Int("batch", 1, "how many lines one message may carry: stored together, or not at all")
	timeout := flag.Duration("timeout", time.Minute, "for how long one line is tried")
	flag.Parse()
	if *subject == "" || flag.NArg() > 0 || *window < 1 {
		fail(errors.New("usage: publisher -subject SUBJECT [-keyed] < LINES; -window is at least 1"))
	}
	if *batch < 1 || *batch > liftlog.ParcelMax {
		fail(fmt.Errorf("-batch %d is out of range: use 1 to %d", *batch, liftlog.ParcelMax))
	}
	if err := run(*url, source{*subject, *keyed, *window, *batch}, *timeout); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "publisher:", err)
	os.Exit(2)
}

// source is what is published, and how.
type source struct {
	subject       string
	keyed         bool
	window, batch int
}

func run(url string, from source, timeout time.Duration) error {
	var mutex sync.Mutex
	complaint := ""
	bus, err := liftlog.ConnectNATS(url, func(err error) {
		mutex.Lock()
		defer mutex.Unlock()
		complaint = err.Error()
	})
	if err != nil {
		return err
	}
	defer bus.Close()
	p := &publisher{bus: bus, inbox: nats.NewInbox(), timeout: timeout, waiting: map[int]*message{}, out: bufio.NewWriter(os.Stdout)}
	defer p.out.Flush()
	answers := make(chan *nats.Msg, 64<<10)
	if _, err := bus.ChanSubscribe(p.inbox+".*", answers); err != nil {
		return err
	}
	if err := bus.FlushTimeout(ackTimeout); err != nil {
		return fmt.Errorf("NATS does not answer: %w", err)
	}
	if err := p.publish(from, answers); err != nil {
		return err
	}
	if p.failed > 0 {
		mutex.Lock()
		defer mutex.Unlock()
		if complaint != "" {
			p.firstWhy += "; " + complaint
		}
		return fmt.Errorf("%d of %d messages to '%s' were not acknowledged: %s", p.failed, p.total, from.subject, p.firstWhy)
	}
	return nil
}

// publish until every line has its result.
func (p *publisher) publish(from source, answers <-chan *nats.Msg) error {
	lines, problems := make(chan []byte, from.batch-1), make(chan error, 1)
	go read(lines, problems)
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	more := lines
	for more != nil || len(p.waiting) > 0 {
		next := more
		if p.lines >= from.window {
			next = nil
		}
		select {
		case line, open := <-next:
			if !open {
				more = nil
				continue
			}
			out, count, err := p.message(from, gather(line, lines, from.batch))
			if err != nil {
				return err
			}
			one := &message{line: p.total + 1, lines: count, out: out, giveUp: time.Now().Add(p.timeout)}
			out.Reply = fmt.Sprintf("%s.%d", p.inbox, one.line)
			p.total += count
			p.lines += count
			p.waiting[one.line] = one
			p.send(one)
		case reply := <-answers:
			p.answered(reply)
		case now := <-sweep.C:
			p.sendAgain(now)
			p.out.Flush()
		}
	}
	return <-problems
}

// gather this line and those that are there already, up to a batch: nothing waits for more to come.
func gather(first []byte, lines <-chan []byte, most int) [][]byte {
	gathered := [][]byte{first}
	for len(gathered) < most {
		select {
		case line, open := <-lines:
			if !open {
				return gathered
			}
			gathered = append(gathered, line)
		default:
			return gathered
		}
	}
	return gathered
}

func read(lines chan<- []byte, problems chan<- error) {
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(make([]byte, 64<<10), lineMax)
	for scanner.Scan() {
		lines <- bytes.Clone(scanner.Bytes())
	}
	problems <- scanner.Err()
	close(lines)
}

// message of these lines. Where batches are asked for, one line is a batch as well.
func (p *publisher) message(from source, lines [][]byte) (*nats.Msg, int, error) {
	records := make([]liftlog.ParcelRecord, len(lines))
	for at, line := range lines {
		records[at].Value = line
		if !from.keyed {
			continue
		}
		key, value, found := bytes.Cut(line, []byte("\t"))
		if !found || len(key) == 0 {
			return nil, 0, fmt.Errorf("line %d has no key: -keyed takes KEY, a tab, VALUE", p.total+at+1)
		}
		records[at].Key, records[at].Value = key, value
	}
	out := nats.NewMsg(from.subject)
	out.Header["Liftlog-Ack"] = []string{"full"}
	if from.batch == 1 {
		out.Data = records[0].Value
		if from.keyed {
			out.Header["Liftlog-Key"] = []string{string(records[0].Key)}
		}
		return out, 1, nil
	}
	var err error
	out.Header[liftlog.BatchHeader] = []string{"1"}
	out.Data, err = liftlog.SealParcel(records)
	return out, len(records), err
}

func (p *publisher) send(one *message) {
	one.attempts++
	one.due = time.Now().Add(ackTimeout)
	err := p.bus.PublishMsg(one.out)
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
		p.finish(one, result{Outcome: "fail", Error: err.Error()})
	case err != nil:
		one.problem, one.due = err.Error(), time.Now().Add(liftlog.RetryPause)
	}
}

// answered takes one answer: to the last attempt or to an earlier one, which counts as well.
func (p *publisher) answered(reply *nats.Msg) {
	line, _ := strconv.Atoi(reply.Subject[strings.LastIndex(reply.Subject, ".")+1:])
	one := p.waiting[line]
	if one == nil {
		return
	}
	if reply.Header.Get("Status") == "503" {
		one.problem, one.due = "no stream listens on this subject", time.Now().Add(liftlog.RetryPause)
		return
	}
	var said answer
	err := json.Unmarshal(reply.Data, &said)
	switch {
	case err != nil, said.Error == nil && (said.Offset == nil || said.Count != nil && *said.Count != one.lines):
		p.finish(one, result{Outcome: "info", Error: fmt.Sprintf("an answer that is not liftlog's: %.100q", reply.Data)})
	case said.Error == nil:
		done := result{Outcome: "ok", Stream: said.Stream, Offset: *said.Offset}
		for _, pair := range []struct{ to, from *int64 }{
			{&done.Partition, said.Partition}, {&done.Epoch, said.Epoch}, {&done.Incarnation, said.Incarnation},
		} {
			if pair.from != nil {
				*pair.to = *pair.from
			}
		}
		p.finish(one, done)
	case said.Liftlog.Outcome == "fail":
		p.finish(one, result{Outcome: "fail", Error: said.Error.Description})
	default:
		one.problem, one.due = said.Error.Description, time.Now().Add(liftlog.RetryPause)
	}
}

// sendAgain what is due, in the order of the lines.
func (p *publisher) sendAgain(now time.Time) {
	for _, line := range slices.Sorted(maps.Keys(p.waiting)) {
		one := p.waiting[line]
		switch {
		case now.After(one.giveUp):
			if one.problem == "" {
				one.problem = "no answer in time"
			}
			p.finish(one, result{Outcome: "info", Error: one.problem})
		case now.After(one.due):
			p.send(one)
		}
	}
}

// finish a message: each of its lines has its result. In a batch they lie one behind the other.
func (p *publisher) finish(one *message, done result) {
	delete(p.waiting, one.line)
	p.lines -= one.lines
	done.Attempts = one.attempts
	if done.Outcome != "ok" {
		done.Partition, done.Offset, done.Epoch, done.Incarnation = -1, -1, -1, -1
		p.failed += one.lines
		if p.firstWhy == "" {
			p.firstWhy = done.Error
		}
	}
	for at := range one.lines {
		done.Line = one.line + at
		text, _ := json.Marshal(done)
		p.out.Write(append(text, '\n'))
		if done.Outcome == "ok" {
			done.Offset++
		}
	}
}
