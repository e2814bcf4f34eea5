package liftlog

import (
	"encoding/binary"
	"errors"
	"math"
)

// As much of msgpack as the protocol uses. Requests are written in few forms; answers may use any, and are bounded:
// nothing nests deeper than depthMax, and no length is believed that the data does not have.

const depthMax = 16

var errMsgpack = errors.New("an answer that is not msgpack")

func appendArray(data []byte, length int) []byte { return append(data, 0x90|byte(length)) }

func appendString(data []byte, text string) []byte {
	if len(text) < 32 {
		data = append(data, 0xa0|byte(len(text)))
	} else {
		data = append(data, 0xda, byte(len(text)>>8), byte(len(text)))
	}
	return append(data, text...)
}

func appendInt(data []byte, value int64) []byte {
	switch {
	case 0 <= value && value < 128, -32 <= value && value < 0:
		return append(data, byte(value))
	case 0 <= value && value < 1<<16:
		return binary.BigEndian.AppendUint16(append(data, 0xcd), uint16(value))
	case 0 <= value && value < 1<<32:
		return binary.BigEndian.AppendUint32(append(data, 0xce), uint32(value))
	}
	return binary.BigEndian.AppendUint64(append(data, 0xd3), uint64(value))
}

func appendBool(data []byte, value bool) []byte {
	if value {
		return append(data, 0xc3)
	}
	return append(data, 0xc2)
}

// unpack decodes one value that fills the data: int64, float64, string, []byte, bool, nil, []any or
// map[string]any. Binary is not copied.
func unpack(data []byte) (any, error) {
	u := unpacker{data: data}
	value, err := u.value(0)
	if err == nil && len(u.data) != 0 {
		err = errMsgpack
	}
	return value, err
}

type unpacker struct{ data []byte }

func (u *unpacker) take(count int) ([]byte, error) {
	if count < 0 || count > len(u.data) {
		return nil, errMsgpack
	}
	taken := u.data[:count]
	u.data = u.data[count:]
	return taken, nil
}

func (u *unpacker) number(bytes int) (uint64, error) {
	taken, err := u.take(bytes)
	var value uint64
	for _, one := range taken {
		value = value<<8 | uint64(one)
	}
	return value, err
}

func (u *unpacker) value(depth int) (any, error) {
	first, err := u.take(1)
	if err != nil || depth > depthMax {
		return nil, errMsgpack
	}
	kind := first[0]
	switch {
	case kind < 0x80, kind >= 0xe0:
		return int64(int8(kind)), nil
	case kind < 0x90:
		return u.dictionary(int(kind&0x0f), depth)
	case kind < 0xa0:
		return u.array(int(kind&0x0f), depth)
	case kind < 0xc0:
		return u.text(int(kind & 0x1f))
	}
	switch kind {
	case 0xc0:
		return nil, nil
	case 0xc2, 0xc3:
		return kind == 0xc3, nil
	case 0xca:
		bits, err := u.number(4)
		return float64(math.Float32frombits(uint32(bits))), err
	case 0xcb:
		bits, err := u.number(8)
		return math.Float64frombits(bits), err
	case 0xcc, 0xcd, 0xce, 0xcf:
		value, err := u.number(1 << (kind - 0xcc))
		if value > math.MaxInt64 {
			return nil, errMsgpack
		}
		return int64(value), err
	case 0xd0, 0xd1, 0xd2, 0xd3:
		width := 1 << (kind - 0xd0)
		value, err := u.number(width)
		shift := 64 - 8*width
		return int64(value<<shift) >> shift, err
	case 0xc4, 0xc5, 0xc6:
		length, err := u.number(1 << (kind - 0xc4))
		if err != nil {
			return nil, err
		}
		return u.take(int(length))
	case 0xd9, 0xda, 0xdb:
		length, err := u.number(1 << (kind - 0xd9))
		if err != nil {
			return nil, err
		}
		return u.text(int(length))
	case 0xdc, 0xdd:
		length, err := u.number(2 << (kind - 0xdc))
		if err != nil {
			return nil, err
		}
		return u.array(int(length), depth)
	case 0xde, 0xdf:
		length, err := u.number(2 << (kind - 0xde))
		if err != nil {
			return nil, err
		}
		return u.dictionary(int(length), depth)
	}
	return nil, errMsgpack
}

func (u *unpacker) text(length int) (any, error) {
	taken, err := u.take(length)
	return string(taken), err
}

func (u *unpacker) array(length, depth int) (any, error) {
	if length > len(u.data) {
		return nil, errMsgpack
	}
	values := make([]any, 0, length)
	for range length {
		value, err := u.value(depth + 1)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

func (u *unpacker) dictionary(length, depth int) (any, error) {
	if length > len(u.data) {
		return nil, errMsgpack
	}
	values := make(map[string]any, length)
	for range length {
		name, err := u.value(depth + 1)
		if err != nil {
			return nil, err
		}
		text, ok := name.(string)
		if !ok {
			return nil, errMsgpack
		}
		if values[text], err = u.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return values, nil
}
