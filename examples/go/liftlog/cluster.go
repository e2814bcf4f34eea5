package liftlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Cluster knows where nodes are and what streams there are: by NATS, or by the nodes themselves.
type Cluster struct {
	access Access
	bus    *nats.Conn // nil: without NATS

	mutex     sync.Mutex
	addresses map[int]string
	seeds     []string // of nodes whose numbers are not known yet
	conns     map[string]*Conn
}

// Connect goes to the first of these that is given: addresses of nodes, or NATS.
func Connect(natsURL string, nodes []string, access Access) (*Cluster, error) {
	c := &Cluster{access: access, seeds: nodes, addresses: map[int]string{}, conns: map[string]*Conn{}}
	for _, address := range nodes {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("-node %s: %v", address, err)
		}
	}
	if len(nodes) > 0 {
		return c, nil
	}
	bus, err := ConnectNATS(natsURL, func(error) {})
	c.bus = bus
	return c, err
}

// ConnectNATS connects, and reconnects for ever once it has been connected. complain: told what NATS says against us.
func ConnectNATS(url string, complain func(error)) (*nats.Conn, error) {
	bus, err := nats.Connect(url, nats.Name("liftlog-go"), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second),
		nats.Timeout(ConnectTimeout), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { complain(err) }))
	if err != nil {
		shown := url[strings.LastIndex(url, "@")+1:]
		return nil, fmt.Errorf("cannot reach NATS at %s: %v; start a nats-server there, or pass another -nats URL", shown, err)
	}
	return bus, nil
}

// Close ends all connections.
func (c *Cluster) Close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	if c.bus != nil {
		c.bus.Close()
	}
}

// Stream asks for a stream: what was decided before the question, so it needs a quorum.
func (c *Cluster) Stream(name string, limit time.Duration) (*Stream, error) {
	var found []Stream
	err := insist(limit, func() (err error) {
		found, err = c.ask(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("a node answered with %d streams", len(found))
	}
	return &found[0], nil
}

func (c *Cluster) ask(name string) ([]Stream, error) {
	if c.bus != nil && c.bus.IsConnected() {
		var reply struct {
			Streams []Stream `json:"streams"`
		}
		err := c.request("STREAM.INFO", map[string]any{"name": name}, &reply)
		return reply.Streams, err
	}
	reply, err := c.askNodes(streamInfoRequest(name))
	if err != nil {
		return nil, err
	}
	return reply.streams()
}

// request is one request of the API over NATS.
func (c *Cluster) request(operation string, body, reply any) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	subject := fmt.Sprintf("$LIFTLOG.%s.API.%s", c.access.Cluster, operation)
	message, err := c.bus.Request(subject, payload, AttemptTimeout)
	if errors.Is(err, nats.ErrNoResponders) {
		return unreachable("no node of cluster '%s' answers on this NATS; start it with 'liftlog serve' or 'liftlog dev'", c.access.Cluster)
	}
	if err != nil {
		return unreachable("no node of cluster '%s' answered %s: %v", c.access.Cluster, operation, err)
	}
	var refused struct {
		Error   *struct{ Description string }
		Liftlog struct {
			Code      string
			Retryable bool
			Leader    int
		}
	}
	if err := json.Unmarshal(message.Data, &refused); err != nil {
		return fmt.Errorf("an answer to %s that is not JSON: %w", operation, err)
	}
	if refused.Error != nil {
		ours := refused.Liftlog
		return &Refused{ours.Code, refused.Error.Description, ours.Retryable, ours.Leader}
	}
	return json.Unmarshal(message.Data, reply)
}

// learn asks for the nodes' addresses.
func (c *Cluster) learn() error {
	found := map[int]string{}
	if c.bus != nil && c.bus.IsConnected() {
		var reply struct {
			Nodes []struct {
				Node    int
				Address string
			}
		}
		if err := c.request("CLUSTER.STATUS", struct{}{}, &reply); err != nil {
			return err
		}
		for _, node := range reply.Nodes {
			found[node.Node] = node.Address
		}
	} else {
		reply, err := c.askNodes(clusterStatusRequest())
		if err != nil {
			return err
		}
		if found, err = reply.addresses(); err != nil {
			return err
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for node, address := range found {
		if address != "" {
			c.addresses[node] = address
		}
	}
	return nil
}

// askNodes asks one node after the other, until one answers.
func (c *Cluster) askNodes(request []byte) (*fields, error) {
	type place struct {
		node    int
		address string
	}
	var places []place
	c.mutex.Lock()
	for node, address := range c.addresses {
		places = append(places, place{node, address})
	}
	sort.Slice(places, func(i, j int) bool { return places[i].node < places[j].node })
	for _, address := range c.seeds {
		places = append(places, place{0, address})
	}
	c.mutex.Unlock()
	last := unreachable("no node is known, and NATS is away")
	for _, one := range places {
		reply, err := c.call(one.node, one.address, request, AttemptTimeout)
		if again, _ := mayRetry(err); err == nil || !again {
			return reply, err
		}
		last = err
	}
	return nil, last
}

func (c *Cluster) address(node int) (string, error) {
	for range 2 {
		c.mutex.Lock()
		address := c.addresses[node]
		c.mutex.Unlock()
		if address != "" {
			return address, nil
		}
		if err := c.learn(); err != nil {
			return "", err
		}
	}
	return "", unreachable("the cluster knows no address of node %d", node)
}

func (c *Cluster) call(node int, address string, request []byte, limit time.Duration) (*fields, error) {
	c.mutex.Lock()
	conn := c.conns[address]
	c.mutex.Unlock()
	if conn == nil || !conn.Usable() {
		made, err := Dial(node, address, c.access)
		if err != nil {
			return nil, err
		}
		c.mutex.Lock()
		if present := c.conns[address]; present != nil && present.Usable() {
			made.Close()
			made = present
		}
		c.conns[address], conn = made, made
		c.mutex.Unlock()
	}
	return conn.Call(request, limit)
}
