package liftlog

import "fmt"

// PartitionID is one log: a partition of a stream's id.
type PartitionID struct {
	Stream int64
	Index  int64
}

func appendPartition(data []byte, id PartitionID) []byte {
	return appendInt(appendInt(appendArray(data, 2), id.Stream), id.Index)
}

type readRequest struct {
	partition                      PartitionID
	offset, maxBytes, waitMs       int64
	seenEpoch, seenHW, seenDropped int64
	verify                         bool
}

func (r readRequest) encode() []byte {
	data := appendString(appendArray(nil, 9), "ReadRequest")
	data = appendPartition(data, r.partition)
	for _, number := range []int64{r.offset, r.maxBytes, r.waitMs, r.seenEpoch, r.seenHW, r.seenDropped} {
		data = appendInt(data, number)
	}
	return appendBool(data, r.verify)
}

func offsetRequest(partition PartitionID, what string) []byte {
	data := appendString(appendArray(nil, 4), "OffsetRequest")
	return appendInt(appendString(appendPartition(data, partition), what), 0)
}

func streamInfoRequest(name string) []byte {
	data := appendString(appendArray(nil, 3), "StreamInfoRequest")
	return appendBool(appendString(data, name), false)
}

func clusterStatusRequest() []byte { return appendString(appendArray(nil, 1), "ClusterStatusRequest") }

type readReply struct {
	epoch, hw, droppedBelow, firstOffset int64
	batches                              [][]byte
}

// Stream is what a reader needs to know of a stream.
type Stream struct {
	ID         int64       `json:"id"`
	Config     Config      `json:"config"`
	Partitions []Partition `json:"partitions"`
}

// Config is a part of a stream's configuration.
type Config struct {
	Name       string `json:"name"`
	Subject    string `json:"subject"`
	Partitions int    `json:"partitions"`
}

// Partition says who leads a partition, 0 = nobody, and who has a copy.
type Partition struct {
	Leader   int   `json:"leader"`
	Replicas []int `json:"replicas"`
}

// fields reads a structure: its name, then its fields in their order. Surplus ones at the end are skipped. The first
// thing that is not as expected is kept in err.
type fields struct {
	name   string
	values []any
	err    error
}

func structure(value any) *fields {
	values, ok := value.([]any)
	if !ok || len(values) == 0 {
		return &fields{err: errMsgpack}
	}
	name, ok := values[0].(string)
	if !ok {
		return &fields{err: errMsgpack}
	}
	return &fields{name: name, values: values[1:]}
}

func field[T any](f *fields, at int) T {
	var nothing T
	if f.err != nil {
		return nothing
	}
	if at >= len(f.values) {
		f.err = fmt.Errorf("a %s of %d fields", f.name, len(f.values))
		return nothing
	}
	value, ok := f.values[at].(T)
	if !ok {
		f.err = fmt.Errorf("field %d of a %s is a %T", at, f.name, f.values[at])
	}
	return value
}

func (f *fields) integer(at int) int64 { return field[int64](f, at) }

func (f *fields) parts(at int) []*fields {
	var parts []*fields
	for _, value := range field[[]any](f, at) {
		part := structure(value)
		if part.err != nil {
			f.err = part.err
		}
		parts = append(parts, part)
	}
	return parts
}

// expect makes an ErrorReply an error, and anything but the reply that was asked for.
func (f *fields) expect(name string) error {
	if f.err != nil || f.name == name {
		return f.err
	}
	if f.name != "ErrorReply" {
		return fmt.Errorf("a node answered with %s where %s belongs", f.name, name)
	}
	refused := &Refused{field[string](f, 0), field[string](f, 1), field[bool](f, 2), int(f.integer(3))}
	if f.err != nil {
		return f.err
	}
	return refused
}

func (f *fields) readReply() (readReply, error) {
	if err := f.expect("ReadReply"); err != nil {
		return readReply{}, err
	}
	reply := readReply{epoch: f.integer(1), hw: f.integer(2), droppedBelow: f.integer(6), firstOffset: f.integer(7)}
	for _, item := range field[[]any](f, 5) {
		data, ok := item.([]byte)
		if !ok {
			return reply, errMsgpack
		}
		reply.batches = append(reply.batches, data)
	}
	return reply, f.err
}

func (f *fields) offsetReply() (int64, error) {
	if err := f.expect("OffsetReply"); err != nil {
		return 0, err
	}
	return f.integer(1), f.err
}

func (f *fields) streams() ([]Stream, error) {
	if err := f.expect("StreamInfoReply"); err != nil {
		return nil, err
	}
	var streams []Stream
	for _, part := range f.parts(0) {
		stream := Stream{ID: part.integer(0)}
		config := field[map[string]any](part, 1)
		stream.Config.Name, _ = config["name"].(string)
		stream.Config.Subject, _ = config["subject"].(string)
		for _, one := range part.parts(2) {
			partition := Partition{Leader: int(one.integer(1))}
			for _, node := range field[[]any](one, 4) {
				number, _ := node.(int64)
				partition.Replicas = append(partition.Replicas, int(number))
			}
			stream.Partitions = append(stream.Partitions, partition)
			if one.err != nil {
				return nil, one.err
			}
		}
		stream.Config.Partitions = len(stream.Partitions)
		if part.err != nil {
			return nil, part.err
		}
		streams = append(streams, stream)
	}
	return streams, f.err
}

// addresses is where each node takes clients.
func (f *fields) addresses() (map[int]string, error) {
	if err := f.expect("ClusterStatusReply"); err != nil {
		return nil, err
	}
	addresses := map[int]string{}
	for _, node := range f.parts(4) {
		addresses[int(node.integer(0))] = field[string](node, 3)
		if node.err != nil {
			return nil, node.err
		}
	}
	return addresses, f.err
}
