package liftlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The examples of docs/wire.md are what this client sends and reads, and it opens every kind of batch there is.

const root = "../../../"

var (
	example = regexp.MustCompile("(?s)<!-- example: ([\\w -]+) -->\n```\\w*\n(.*?)```")
	shown   = regexp.MustCompile(`^((?:[0-9a-f]{2})+(?: (?:[0-9a-f]{2})+)*)(?:  |$)`)
	log17   = PartitionID{17, 0}
)

func page(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(root + "docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range example.FindAllStringSubmatch(string(text), -1) {
		if found[1] != name {
			continue
		}
		var data []byte
		for line := range strings.Lines(found[2]) {
			digits := shown.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if digits == nil {
				t.Fatalf("%s: %q is no line of bytes", name, line)
			}
			part, _ := hex.DecodeString(strings.ReplaceAll(digits[1], " ", ""))
			data = append(data, part...)
		}
		return data
	}
	t.Fatalf("docs/wire.md has no example %q", name)
	return nil
}

func same(t *testing.T, name string, made []byte) {
	t.Helper()
	if wanted := page(t, name); !bytes.Equal(made, wanted) {
		t.Errorf("%s: made\n%x, the page has\n%x", name, made, wanted)
	}
}

// framed as on the wire.
func framed(message []byte) []byte {
	var frame bytes.Buffer
	_ = writeFrame(&frame, message)
	return frame.Bytes()
}

// pageCaller is the page's, whose nonce is no random one.
func pageCaller() *caller {
	secret := make([]byte, 32)
	for at := range secret {
		secret[at] = byte(at)
	}
	one := &caller{cluster: "liftlog", secrets: [][]byte{secret}, to: 2, versions: Spoken}
	copy(one.nonce[:], bytes.Repeat([]byte{0x11}, nonceBytes))
	return one
}

func TestTheHandshakeOfThePage(t *testing.T) {
	one := pageCaller()
	same(t, "hello", framed(one.hello()))
	proof, err := one.prove(page(t, "challenge")[4:])
	if err != nil {
		t.Fatal(err)
	}
	same(t, "conversation", one.said)
	same(t, "proof", framed(proof))
	key, err := one.finish(page(t, "welcome")[4:])
	if err != nil {
		t.Fatal(err)
	}
	same(t, "caller key", key)
	same(t, "first call", callFrame(key, 0, 1, offsetRequest(log17, "earliest")))
	read := readRequest{partition: log17, offset: 4, maxBytes: 1 << 20, waitMs: 500, seenEpoch: 3, seenHW: 6, seenDropped: -1}
	same(t, "second call", callFrame(key, 1, 2, read.encode()))
}

func TestTheParcelOfThePage(t *testing.T) {
	made, err := SealParcel([]ParcelRecord{{Value: []byte("a")}, {Key: []byte("k"), Value: []byte("bc")}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "parcel", made)
	for _, wrong := range [][]ParcelRecord{nil, make([]ParcelRecord, ParcelMax+1), {{}}, {{Subject: make([]byte, 1<<16), Value: []byte{}}}} {
		if _, err := SealParcel(wrong); err == nil {
			t.Errorf("a parcel of %d records is made that cannot be stored", len(wrong))
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for name, words := range map[string]string{
		"refused":         "the secret or the name",
		"refused version": "it speaks protocol versions 2 to 3, this client protocol version 9",
	} {
		one := pageCaller()
		one.versions = Versions{9, 9}
		_, err := one.prove(page(t, name)[4:])
		if again, _ := mayRetry(err); err == nil || again || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := pageCaller()
	challenge := page(t, "challenge")[4:]
	for at, value := range map[int]byte{0: 9, 1: 2, 3: 7} {
		wrong := bytes.Clone(challenge)
		wrong[at] = value
		if _, err := other.prove(wrong); err == nil {
			t.Errorf("a challenge with %d at %d is taken", value, at)
		}
	}
	if _, err := other.prove(challenge); err != nil {
		t.Fatal(err)
	}
	welcome := page(t, "welcome")[4:]
	welcome[7] ^= 1
	if _, err := other.finish(welcome); err == nil {
		t.Error("another proof is taken")
	}
}

func reply(t *testing.T, name string, head int) *fields {
	t.Helper()
	value, err := unpack(page(t, name)[head:])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return structure(value.([]any)[1])
}

func TestTheAnswersOfThePage(t *testing.T) {
	for _, name := range []string{"read answer", "read answer from a file"} {
		answer, err := reply(t, name, 4).readReply()
		if err != nil {
			t.Fatal(err)
		}
		records, end, err := open(answer, log17, 5)
		if err != nil || end != 6 || len(records) != 2 || answer.hw != 6 {
			t.Fatalf("%s: %v, end %d, %v", name, records, end, err)
		}
		if string(records[0].Key) != "a" || records[1].Key != nil || string(records[1].Value) != "two" ||
			records[1].Offset != 5 || records[1].TimestampMs != 1_700_000_000_250 {
			t.Errorf("%s: %v", name, records)
		}
	}
	if answer, err := reply(t, "empty answer", 4).readReply(); err != nil || answer.firstOffset != -1 {
		t.Errorf("%v, %v", answer, err)
	}
	if offset, err := reply(t, "offset answer", 4).offsetReply(); err != nil || offset != 0 {
		t.Errorf("%d, %v", offset, err)
	}
	_, err := reply(t, "error answer", 4).readReply()
	if again, leader := mayRetry(err); !again || leader != 3 {
		t.Errorf("%v", err)
	}
	streams, err := reply(t, "stream answer", 0).streams()
	if err != nil || len(streams) != 1 || streams[0].ID != 17 || streams[0].Config.Name != "orders" ||
		streams[0].Partitions[0].Leader != 2 || fmt.Sprint(streams[0].Partitions[0].Replicas) != "[1 2 3]" {
		t.Errorf("%v, %v", streams, err)
	}
	addresses, err := reply(t, "status answer", 0).addresses()
	if err != nil || addresses[2] != "10.0.0.2:4701" {
		t.Errorf("%v, %v", addresses, err)
	}
}

func TestWhatAnAnswerMayHaveMoreAndWhatItMayNot(t *testing.T) {
	surplus := &fields{name: "OffsetReply", values: []any{nil, int64(7), int64(1), "more"}}
	if offset, err := surplus.offsetReply(); err != nil || offset != 7 {
		t.Errorf("%d, %v", offset, err)
	}
	whole := page(t, "stream answer")
	for length := range whole {
		if _, err := unpack(whole[:length]); err == nil {
			t.Errorf("%d bytes of an answer are taken for a whole one", length)
		}
	}
	if _, err := unpack(bytes.Repeat([]byte{0x91}, 1000)); err == nil {
		t.Error("an answer may nest without end")
	}
}

func TestADamagedBatchIsFoundWhereverItsBytesAreChanged(t *testing.T) {
	answer, err := reply(t, "read answer", 4).readReply()
	if err != nil {
		t.Fatal(err)
	}
	good := answer.batches[0]
	for at := lengthAt; at < len(good); at++ {
		bad := bytes.Clone(good)
		bad[at] ^= 0x10
		answer.batches = [][]byte{bad}
		if _, end, err := open(answer, log17, 4); err == nil || end != 4 {
			t.Errorf("byte %d: end %d, %v", at, end, err)
		}
	}
	answer.batches = [][]byte{good}
	if _, _, err := open(answer, PartitionID{17, 1}, 4); err == nil {
		t.Error("a batch of another partition is taken")
	}
}

func TestEveryKindOfBatch(t *testing.T) {
	text, err := os.ReadFile(root + "tests/golden/batches-2.hex")
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	for _, part := range strings.Split(string(text), "# ")[1:] {
		kind, digits, _ := strings.Cut(part, "\n")
		frame, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(digits), "\n", ""))
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseBatch(PartitionID{7, 2}, frame)
		if strings.HasPrefix(kind, "sealed") {
			if err == nil {
				t.Errorf("%s: an encrypted batch is taken", kind)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		records, err := b.decode()
		if err != nil || int64(len(records)) != b.records {
			t.Errorf("%s: %d records of %d, %v", kind, len(records), b.records, err)
		}
		for _, record := range records {
			if record.Offset < b.base || record.Offset >= b.end() {
				t.Errorf("%s: %v", kind, record)
			}
		}
		opened++
	}
	if opened < 7 {
		t.Errorf("%d kinds of batches", opened)
	}
	if _, err := parseBatch(PartitionID{7, 2}, newer(t)); err == nil || strings.Contains(err.Error(), "damaged") {
		t.Errorf("a newer batch is damage: %v", err)
	}
}

// newer is a good batch of a version that nobody knows yet.
func newer(t *testing.T) []byte {
	answer, err := reply(t, "read answer", 4).readReply()
	if err != nil {
		t.Fatal(err)
	}
	frame := bytes.Clone(answer.batches[0])
	frame[22] = 99
	binary.LittleEndian.PutUint32(frame[crcAt:], checksum(PartitionID{7, 2}, frame))
	return frame
}
