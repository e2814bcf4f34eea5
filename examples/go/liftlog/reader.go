package liftlog

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Reader reads one partition, from its leader or else from any other replica, and never goes backward.
type Reader struct {
	cluster   *Cluster
	stream    *Stream
	index     int
	turn      int
	seenEpoch int64
	seenHW    int64

	// Position is where the next Fetch begins.
	Position int64

	mindsDeletions bool
	seenDropped    int64
}

const (
	fetchBytes = 1 << 20
	fetchWait  = 500 * time.Millisecond
)

// Reader of a partition, which begins at offset 0.
func (c *Cluster) Reader(stream *Stream, index int) *Reader {
	return &Reader{cluster: c, stream: stream, index: index, seenDropped: -1}
}

func (r *Reader) id() PartitionID { return PartitionID{r.stream.ID, int64(r.index)} }

// Offset of "earliest", "latest" or "new". The last two are told by the leader alone.
func (r *Reader) Offset(what string) (int64, error) {
	var offset int64
	err := r.insist(what != "earliest", func(node int, address string) error {
		reply, err := r.cluster.call(node, address, offsetRequest(r.id(), what), AttemptTimeout)
		if err == nil {
			offset, err = reply.offsetReply()
		}
		return err
	})
	return offset, err
}

// MindDeletions is for who reads from the front and keeps what it sees: a deletion that may be missed is an error.
func (r *Reader) MindDeletions() { r.mindsDeletions = true }

// Fetch returns the committed records from Position on and moves it. None: there are none yet, or none at these
// offsets any more.
func (r *Reader) Fetch() ([]Record, error) {
	records, err := r.fetch(false)
	if errors.Is(err, errDamaged) {
		// The node sends what lies in its files. Let it look itself this time.
		records, err = r.fetch(true)
	}
	if errors.Is(err, errDamaged) {
		err = fmt.Errorf("partition %d of '%s': a node sent a damaged batch, twice: %w", r.index, r.stream.Config.Name, err)
	}
	return records, err
}

func (r *Reader) fetch(verify bool) ([]Record, error) {
	request := readRequest{
		partition: r.id(), offset: r.Position, maxBytes: fetchBytes, waitMs: fetchWait.Milliseconds(),
		seenEpoch: r.seenEpoch, seenHW: r.seenHW, seenDropped: r.seenDropped, verify: verify,
	}
	var reply readReply
	err := r.insist(false, func(node int, address string) error {
		answer, err := r.cluster.call(node, address, request.encode(), AttemptTimeout)
		if err == nil {
			reply, err = answer.readReply()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	records, end, err := open(reply, r.id(), r.Position)
	if err != nil && (end == r.Position || !errors.Is(err, errDamaged)) {
		return nil, err
	}
	r.seenEpoch, r.seenHW = max(r.seenEpoch, reply.epoch), max(r.seenHW, reply.hw)
	if r.mindsDeletions && r.seenDropped < 0 {
		r.seenDropped = reply.droppedBelow
	}
	begin := r.Position
	r.Position = min(end, max(reply.hw, begin))
	return slices.DeleteFunc(records, func(record Record) bool {
		return record.Offset < begin || record.Offset >= r.Position
	}), nil
}

// open verifies the batches of an answer to a read from offset: each where it belongs. On damage it returns what
// came before, and where that ends.
func open(reply readReply, log PartitionID, offset int64) ([]Record, int64, error) {
	var records []Record
	end, due := offset, reply.firstOffset
	if due > offset {
		return nil, end, damagedf("an answer begins at %d where %d belongs", due, offset)
	}
	for _, item := range reply.batches {
		for len(item) > 0 {
			frame, rest, err := nextFrame(item)
			if err != nil {
				return records, end, err
			}
			b, err := parseBatch(log, frame)
			if err != nil {
				return records, end, err
			}
			if b.base != due {
				return records, end, damagedf("offset %d lies where %d belongs", b.base, due)
			}
			if b.end() > end {
				if b.attributes&control == 0 {
					found, err := b.decode()
					if err != nil {
						return records, end, err
					}
					records = append(records, found...)
				}
				end = b.end()
			}
			due, item = b.end(), rest
		}
	}
	return records, end, nil
}

// insist asks the right node, and the next one on errors that allow it, until the time is up.
func (r *Reader) insist(toLeader bool, ask func(node int, address string) error) error {
	deadline, hint := time.Now().Add(ProgressTimeout), 0
	for {
		node := hint
		if node == 0 {
			node = r.choose(toLeader)
		}
		address, err := r.cluster.address(node)
		if err == nil {
			if err = ask(node, address); err == nil {
				return nil
			}
		}
		again, leader := mayRetry(err)
		if !again || time.Now().Add(RetryPause).After(deadline) {
			return err
		}
		r.turn++
		if hint == 0 && leader != node {
			hint = leader // at once, but two nodes that name each other are not asked in a circle
		} else {
			hint = 0
		}
		if hint == 0 {
			time.Sleep(RetryPause)
			var away *Unreachable
			if err := r.refresh(errors.As(err, &away)); err != nil {
				return err
			}
		}
	}
}

// choose the leader first, then the other replicas in turn.
func (r *Reader) choose(toLeader bool) int {
	partition := r.stream.Partitions[r.index]
	var nodes []int
	if partition.Leader != 0 {
		nodes = append(nodes, partition.Leader)
	}
	if !toLeader || len(nodes) == 0 {
		for _, node := range partition.Replicas {
			if node != partition.Leader {
				nodes = append(nodes, node)
			}
		}
	}
	if len(nodes) == 0 {
		return 0
	}
	return nodes[r.turn%len(nodes)]
}

// refresh learns who leads now and, if a node was away, where the nodes are. If nobody can say, what is known stays.
func (r *Reader) refresh(away bool) error {
	stream, err := r.cluster.Stream(r.stream.Config.Name, 0)
	if err == nil && away {
		err = r.cluster.learn()
	}
	if err != nil {
		if again, _ := mayRetry(err); again {
			return nil
		}
		return err
	}
	if stream.ID != r.stream.ID {
		return fmt.Errorf("stream '%s' was deleted and created anew; read it from its beginning", stream.Config.Name)
	}
	r.stream = stream
	return nil
}
