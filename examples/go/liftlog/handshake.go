package liftlog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

const (
	roleClient        = 2
	tagsHMAC          = 1
	handshakeMaxBytes = 256
	nonceBytes        = 32

	challengeKind, proofKind, welcomeKind, refusedKind = 2, 3, 4, 5
)

// Versions is a range of versions of the protocol.
type Versions struct{ Lowest, Highest uint16 }

// Spoken are the versions that this client speaks.
var Spoken = Versions{2, 3}

func (v Versions) String() string {
	if v.Lowest == v.Highest {
		return fmt.Sprintf("protocol version %d", v.Lowest)
	}
	return fmt.Sprintf("protocol versions %d to %d", v.Lowest, v.Highest)
}

var reasons = map[byte]string{
	1: "it speaks none of our protocol versions: upgrade the older side",
	2: "this port is for nodes; clients call what [node] listen names",
	3: "the secret or the name of the cluster is another one there",
	4: "this node is none of its cluster",
	5: "it has as many clients as it may have; try again later",
	6: "it takes connections with TLS only: name the CA's file with -tls-ca",
}

// caller is our side of a handshake, without IO: hello, prove, finish.
type caller struct {
	cluster  string
	secrets  [][]byte
	to       uint16
	nonce    [nonceBytes]byte
	versions Versions
	bound    []byte // the certificate that the node has shown, hashed; nothing without TLS
	said     []byte // what both sides believe the conversation to be
}

func (c *caller) hello() []byte {
	offer := tagsHMAC | byte(c.versions.Highest-c.versions.Lowest)<<2
	return c.greeting(offer, c.to)
}

// greeting is the layout of the hello, which the conversation repeats with the choice and the node's id.
func (c *caller) greeting(tags byte, to uint16) []byte {
	message := []byte("LLOG")
	message = binary.BigEndian.AppendUint16(message, c.versions.Lowest)
	message = append(message, roleClient, tags)
	message = binary.BigEndian.AppendUint16(message, 0)
	message = binary.BigEndian.AppendUint16(message, to)
	message = append(message, c.nonce[:]...)
	message = append(message, byte(len(c.cluster)))
	return append(message, c.cluster...)
}

// prove takes the challenge and returns the proof, one for each secret.
func (c *caller) prove(challenge []byte) ([]byte, error) {
	if err := c.refusal(challenge); err != nil {
		return nil, err
	}
	if len(challenge) != 4+nonceBytes || challenge[0] != challengeKind {
		return nil, fmt.Errorf("who answers does not speak this protocol")
	}
	choice, node := challenge[1], binary.BigEndian.Uint16(challenge[2:])
	if choice&3 != tagsHMAC || uint16(choice>>2) > c.versions.Highest-c.versions.Lowest {
		return nil, fmt.Errorf("who answers chose what was not offered")
	}
	if c.to != 0 && node != c.to {
		return nil, unreachable("node %d answers where node %d should be", node, c.to)
	}
	c.said = c.greeting(choice, node)
	c.said = append(c.said, challenge[4:]...)
	c.said = append(c.said, c.hello()...)
	c.said = append(c.said, c.bound...)
	proof := []byte{proofKind, byte(len(c.secrets))}
	for _, secret := range c.secrets {
		proof = append(proof, c.derive(secret, "caller proves")...)
	}
	return proof, nil
}

// finish takes the welcome and returns the key of our frames' tags.
func (c *caller) finish(welcome []byte) ([]byte, error) {
	if err := c.refusal(welcome); err != nil {
		return nil, err
	}
	if len(welcome) != 1+sha256.Size || welcome[0] != welcomeKind {
		return nil, fmt.Errorf("who answers does not speak this protocol")
	}
	for _, secret := range c.secrets {
		if hmac.Equal(c.derive(secret, "answerer proves"), welcome[1:]) {
			return c.derive(secret, "frames of the caller"), nil
		}
	}
	return nil, fmt.Errorf("who answers does not know the secret")
}

func (c *caller) derive(secret []byte, label string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte{byte(len(secret)), byte(len(label))})
	mac.Write([]byte(label))
	mac.Write(c.said)
	return mac.Sum(nil)
}

// refusal is the error that a message is, if it is one. Only a node that is full may be asked again.
func (c *caller) refusal(message []byte) error {
	if len(message) < 2 || message[0] != refusedKind {
		return nil
	}
	code := message[1]
	text, known := reasons[code]
	if !known {
		text = fmt.Sprintf("for a reason that this client does not know (%d)", code)
	}
	if code == 1 && len(message) == 6 {
		theirs := Versions{binary.BigEndian.Uint16(message[2:]), binary.BigEndian.Uint16(message[4:])}
		side := "here"
		if theirs.Highest < c.versions.Lowest {
			side = "there"
		}
		text = fmt.Sprintf("it speaks %s, this client %s: upgrade liftlog %s", theirs, c.versions, side)
	}
	if code == 5 {
		return unreachable("%s", text)
	}
	return &denied{text, code == 3}
}

// denied is a refusal that no later try changes.
type denied struct {
	text   string
	secret bool // it is about the secret, or the cluster's name
}

func (d *denied) Error() string { return d.text }
