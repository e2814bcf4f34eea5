package liftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// Parcels as docs/wire.md has them: several records in one message, stored together or not at all.

// BatchHeader, with the value 1, says that a message is a parcel.
const BatchHeader = "Liftlog-Batch"

// ParcelMax is how many records one parcel may have.
const ParcelMax = 1000

// ParcelRecord is one record of a parcel. A nil Key is none; a nil Value deletes the key. An empty Subject
// stands for that of the message. Headers are a whole block of NATS, or nothing.
type ParcelRecord struct {
	Subject, Headers, Key, Value []byte
}

// SealParcel makes the payload of the message that carries these records, without a codec.
func SealParcel(records []ParcelRecord) ([]byte, error) {
	if len(records) < 1 || len(records) > ParcelMax {
		return nil, fmt.Errorf("a batch has 1 to %d records, not %d", ParcelMax, len(records))
	}
	data := []byte("LLP1\x00\x00\x00\x00\x00\x00")
	data = binary.LittleEndian.AppendUint16(data, uint16(len(records)))
	for number, record := range records {
		if record.Key == nil && record.Value == nil {
			return nil, fmt.Errorf("record %d has neither a value nor a key", number)
		}
		if len(record.Subject) > math.MaxUint16 {
			return nil, fmt.Errorf("record %d has a subject of %d bytes, above %d", number, len(record.Subject), math.MaxUint16)
		}
		strings := len(record.Subject) + len(record.Headers) + len(record.Key) + len(record.Value)
		if strings > plainMax {
			return nil, errors.New("a record is larger than any batch")
		}
		data = binary.LittleEndian.AppendUint32(data, uint32(20+strings))
		data = binary.LittleEndian.AppendUint32(data, 0)
		data = binary.LittleEndian.AppendUint16(data, uint16(len(record.Subject)))
		data = binary.LittleEndian.AppendUint16(data, 0)
		data = binary.LittleEndian.AppendUint32(data, uint32(len(record.Headers)))
		data = binary.LittleEndian.AppendUint32(data, lengthOrNone(record.Key))
		data = binary.LittleEndian.AppendUint32(data, lengthOrNone(record.Value))
		for _, text := range [][]byte{record.Subject, record.Headers, record.Key, record.Value} {
			data = append(data, text...)
		}
	}
	binary.LittleEndian.PutUint32(data[4:], crc32.Checksum(data[8:], castagnoli))
	return data, nil
}

func lengthOrNone(text []byte) uint32 {
	if text == nil {
		return math.MaxUint32
	}
	return uint32(len(text))
}
