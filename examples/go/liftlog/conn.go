package liftlog

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	frameMax = 64 << 20
	tagBytes = 16
)

// Conn is a connection to one node. Calls of several goroutines may be under way; once one has failed on the way it
// is of no more use.
type Conn struct {
	address string
	socket  net.Conn
	key     []byte

	mutex   sync.Mutex
	frames  uint64
	calls   int64
	waiting map[int64]chan *fields
	lost    error
}

// Dial connects to a node, 0 = whichever answers there, and proves the secret.
func Dial(node int, address string, access Access) (*Conn, error) {
	socket, bound, err := connected(address, access)
	if err != nil {
		return nil, unreachable("node %d at %s is not reachable: %v", node, address, err)
	}
	reader := bufio.NewReaderSize(socket, 256<<10)
	key, err := introduce(socket, reader, node, access, bound)
	if err != nil {
		socket.Close()
		return nil, explained(err, node, address, access)
	}
	socket.SetDeadline(time.Time{})
	c := &Conn{address: address, socket: socket, key: key, waiting: map[int64]chan *fields{}}
	go c.receive(reader)
	return c, nil
}

func introduce(socket net.Conn, reader io.Reader, node int, access Access, bound []byte) ([]byte, error) {
	me := &caller{cluster: access.Cluster, secrets: access.Secrets, to: uint16(node), versions: access.Versions, bound: bound}
	if _, err := rand.Read(me.nonce[:]); err != nil {
		return nil, err
	}
	if err := writeFrame(socket, me.hello()); err != nil {
		return nil, err
	}
	challenge, err := readFrame(reader, handshakeMaxBytes)
	if err != nil {
		return nil, err
	}
	proof, err := me.prove(challenge)
	if err != nil {
		return nil, err
	}
	if err = writeFrame(socket, proof); err != nil {
		return nil, err
	}
	welcome, err := readFrame(reader, handshakeMaxBytes)
	if err != nil {
		return nil, err
	}
	return me.finish(welcome)
}

// explained makes of what ended a handshake one line, for good or not.
func explained(err error, node int, address string, access Access) error {
	who := fmt.Sprintf("node %d at %s", node, address)
	var no *denied
	if errors.As(err, &no) {
		if no.secret {
			return fmt.Errorf("%s refused this client: %s; it used %s: pass another one with -secret-file", who, no, access.Source)
		}
		return fmt.Errorf("%s refused this client: %s", who, no)
	}
	return unreachable("%s and this client do not get to know each other: %v", who, err)
}

func writeFrame(writer io.Writer, message []byte) error {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(message)))
	_, err := writer.Write(append(frame, message...))
	return err
}

func readFrame(reader io.Reader, limit uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(reader, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > limit {
		return nil, fmt.Errorf("a frame of %d bytes: this is no node of liftlog", length)
	}
	message := make([]byte, length)
	_, err := io.ReadFull(reader, message)
	return message, err
}

// callFrame is the frame of a call: tag, number of the frame, msgpack of number and request.
func callFrame(key []byte, frame uint64, number int64, request []byte) []byte {
	covered := binary.BigEndian.AppendUint64(nil, frame)
	covered = append(appendInt(appendArray(covered, 2), number), request...)
	mac := hmac.New(sha256.New, key)
	mac.Write(covered)
	whole := binary.BigEndian.AppendUint32(nil, uint32(tagBytes+len(covered)))
	return append(append(whole, mac.Sum(nil)[:tagBytes]...), covered...)
}

// Call asks the node and waits for the answer.
func (c *Conn) Call(request []byte, limit time.Duration) (*fields, error) {
	answer := make(chan *fields, 1)
	number, err := c.send(request, answer, limit)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case reply, good := <-answer:
		if good {
			return reply, nil
		}
		return nil, c.lost
	case <-timer.C:
		err := unreachable("node at %s did not answer within %v", c.address, limit)
		c.end(err)
		c.mutex.Lock()
		delete(c.waiting, number)
		c.mutex.Unlock()
		return nil, err
	}
}

func (c *Conn) send(request []byte, answer chan *fields, limit time.Duration) (int64, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.lost != nil {
		return 0, c.lost
	}
	c.calls++
	number := c.calls
	frame := callFrame(c.key, c.frames, number, request)
	c.frames++
	c.waiting[number] = answer
	c.socket.SetWriteDeadline(time.Now().Add(limit))
	if _, err := c.socket.Write(frame); err != nil {
		delete(c.waiting, number)
		c.socket.Close() // which ends the connection where answers are received
		return 0, unreachable("node at %s: %v", c.address, err)
	}
	return number, nil
}

// Usable says whether a call may be tried.
func (c *Conn) Usable() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.lost == nil
}

// Close ends the connection, and all calls that are under way on it.
func (c *Conn) Close() { c.end(unreachable("node at %s: closed", c.address)) }

func (c *Conn) end(err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.lost != nil {
		return
	}
	c.lost = err
	c.socket.Close()
	for number, answer := range c.waiting {
		close(answer)
		delete(c.waiting, number)
	}
}

func (c *Conn) receive(reader io.Reader) {
	for {
		message, err := readFrame(reader, frameMax)
		if err != nil {
			c.end(unreachable("node at %s hung up: %v", c.address, err))
			return
		}
		value, err := unpack(message)
		pair, _ := value.([]any)
		if err != nil || len(pair) < 2 {
			c.end(unreachable("node at %s: %v", c.address, errMsgpack))
			return
		}
		number, _ := pair[0].(int64)
		c.mutex.Lock()
		answer, found := c.waiting[number]
		delete(c.waiting, number)
		c.mutex.Unlock()
		if found {
			answer <- structure(pair[1])
		}
	}
}
