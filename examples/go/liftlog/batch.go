package liftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"
)

// Batches as docs/log-format.md has them. All numbers are little-endian.

const (
	headerBytes = 64
	lengthAt    = 12
	crcAt       = 16
	bodyAt      = 20
	plainMax    = 64 << 20

	codecMask, sparse, control, sealed = 0x03, 0x04, 0x08, 0x80
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is wrapped by everything that is no good batch of its log.
var errDamaged = errors.New("damaged")

func damagedf(format string, values ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, values...))
}

// Record is one stored record. Key and Value are nil where they are absent, which differs from empty.
type Record struct {
	Offset      int64
	TimestampMs int64
	Subject     []byte
	Reply       []byte
	Headers     []byte
	Key         []byte
	Value       []byte
}

type batch struct {
	base, count int64
	attributes  byte
	firstMs     int64
	records     int64
	payload     []byte
}

func (b *batch) end() int64 { return b.base + b.count }

// nextFrame cuts the first batch off data by the length that it claims.
func nextFrame(data []byte) (frame, rest []byte, err error) {
	if len(data) < headerBytes {
		return nil, nil, damagedf("%d bytes are too few for a batch", len(data))
	}
	length := int64(binary.LittleEndian.Uint32(data[lengthAt:])) + crcAt
	if length < headerBytes || length > int64(len(data)) {
		return nil, nil, damagedf("a batch of %d bytes in %d", length, len(data))
	}
	return data[:length], data[length:], nil
}

// checksum of a whole batch: of the log that it belongs to, its length, and all behind the checksum.
func checksum(log PartitionID, frame []byte) uint32 {
	head := binary.LittleEndian.AppendUint64(nil, uint64(log.Stream))
	head = binary.LittleEndian.AppendUint32(head, uint32(log.Index))
	head = append(head, frame[lengthAt:crcAt]...)
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, frame[bodyAt:])
}

// parseBatch verifies one whole batch of a log.
func parseBatch(log PartitionID, frame []byte) (*batch, error) {
	if len(frame) < headerBytes {
		return nil, damagedf("%d bytes are too few for a batch", len(frame))
	}
	if checksum(log, frame) != binary.LittleEndian.Uint32(frame[crcAt:]) {
		return nil, damagedf("the checksum does not match")
	}
	if binary.LittleEndian.Uint16(frame[20:]) != 0x4cf5 {
		return nil, damagedf("this is not a batch")
	}
	version, attributes := frame[22], frame[23]
	known := map[byte]byte{1: sealed, 2: codecMask | sparse | control | sealed}
	if bits, ok := known[version]; !ok || attributes&^bits != 0 || attributes&codecMask == 3 {
		return nil, fmt.Errorf("a batch of version %d with attributes %#02x, newer than this client: upgrade it", version, attributes)
	}
	if attributes&sealed != 0 {
		return nil, damagedf("the batch is encrypted")
	}
	b := &batch{
		base:       int64(binary.LittleEndian.Uint64(frame[24:])),
		count:      int64(binary.LittleEndian.Uint32(frame[40:])),
		attributes: attributes,
		firstMs:    int64(binary.LittleEndian.Uint64(frame[44:])),
		payload:    frame[headerBytes:],
	}
	b.records = b.count
	if attributes&sparse != 0 {
		b.records = int64(binary.LittleEndian.Uint32(frame[60:]))
	}
	return b, nil
}

// decode returns the records that are there.
func (b *batch) decode() ([]Record, error) {
	data, err := b.plain()
	if err != nil {
		return nil, err
	}
	var records []Record
	last := int64(-1)
	for range b.records {
		record, place, rest, err := b.record(data, last+1)
		if err != nil {
			return nil, err
		}
		if place <= last || place >= b.count {
			return nil, damagedf("record %d lies outside the order of its batch", b.base+place)
		}
		records, data, last = append(records, record), rest, place
	}
	if len(data) != 0 {
		return nil, damagedf("%d bytes follow the last record of a batch", len(data))
	}
	return records, nil
}

// record cuts the first record off data. place: where it lies in the span, if it does not say so itself.
func (b *batch) record(data []byte, place int64) (Record, int64, []byte, error) {
	fixed := 20
	if b.attributes&sparse != 0 {
		fixed = 24
	}
	if len(data) < 4+fixed {
		return Record{}, 0, nil, damagedf("a record lies outside its batch")
	}
	length := int64(binary.LittleEndian.Uint32(data))
	if length < int64(fixed) || length > int64(len(data)-4) {
		return Record{}, 0, nil, damagedf("a record lies outside its batch")
	}
	whole, rest := data[4:4+length], data[4+length:]
	if fixed == 24 {
		place, whole = int64(binary.LittleEndian.Uint32(whole)), whole[4:]
	}
	delta := int64(int32(binary.LittleEndian.Uint32(whole)))
	lengths := []int64{
		int64(binary.LittleEndian.Uint16(whole[4:])),
		int64(binary.LittleEndian.Uint16(whole[6:])),
		int64(binary.LittleEndian.Uint32(whole[8:])),
		int64(int32(binary.LittleEndian.Uint32(whole[12:]))),
		int64(int32(binary.LittleEndian.Uint32(whole[16:]))),
	}
	record := Record{Offset: b.base + place, TimestampMs: b.firstMs + delta}
	strings := []*[]byte{&record.Subject, &record.Reply, &record.Headers, &record.Key, &record.Value}
	whole = whole[20:]
	for at, count := range lengths {
		if count == -1 && at >= 3 {
			continue
		}
		if count < 0 || count > int64(len(whole)) {
			return Record{}, 0, nil, damagedf("record %d does not fill its %d bytes", record.Offset, length)
		}
		*strings[at], whole = whole[:count:count], whole[count:]
	}
	if len(whole) != 0 {
		return Record{}, 0, nil, damagedf("record %d does not fill its %d bytes", record.Offset, length)
	}
	return record, place, rest, nil
}

// plain is the payload without its codec.
func (b *batch) plain() ([]byte, error) {
	codec := b.attributes & codecMask
	if codec == 0 {
		return b.payload, nil
	}
	if len(b.payload) < 4 {
		return nil, damagedf("too few bytes for a compressed payload")
	}
	length, packed := int(binary.LittleEndian.Uint32(b.payload)), b.payload[4:]
	if length < 1 || length > plainMax {
		return nil, damagedf("a payload claims %d plain bytes", length)
	}
	var plain []byte
	var err error
	if codec == 1 {
		plain, err = unpackZstd(packed, length)
	} else {
		plain, err = unpackLZ4(packed, length)
	}
	if err != nil || len(plain) != length {
		return nil, damagedf("a payload claims %d plain bytes and holds %d (%v)", length, len(plain), err)
	}
	return plain, nil
}

func unpackZstd(packed []byte, length int) ([]byte, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(plainMax))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(packed, make([]byte, 0, length))
}

// unpackLZ4 decompresses one block: sequences of literals and of copies of what came before.
func unpackLZ4(packed []byte, length int) ([]byte, error) {
	plain := make([]byte, 0, length)
	at := 0
	count := func(nibble byte) (int, bool) {
		total := int(nibble)
		for more := nibble == 15; more; {
			if at >= len(packed) || total > length {
				return 0, false
			}
			total += int(packed[at])
			more = packed[at] == 255
			at++
		}
		return total, true
	}
	for at < len(packed) {
		token := packed[at]
		at++
		literals, ok := count(token >> 4)
		if !ok || literals > len(packed)-at || len(plain)+literals > length {
			return plain, damagedf("lz4: literals")
		}
		plain = append(plain, packed[at:at+literals]...)
		if at += literals; at == len(packed) {
			break
		}
		if len(packed)-at < 2 {
			return plain, damagedf("lz4: distance")
		}
		distance := int(binary.LittleEndian.Uint16(packed[at:]))
		at += 2
		copied, ok := count(token & 15)
		copied += 4
		if !ok || distance == 0 || distance > len(plain) || len(plain)+copied > length {
			return plain, damagedf("lz4: copy")
		}
		for range copied {
			plain = append(plain, plain[len(plain)-distance])
		}
	}
	return plain, nil
}
