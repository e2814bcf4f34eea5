// A program written for NATS JetStream with nothing but nats.go: it publishes, consumes and keeps keys, and prints
// what it saw as JSON objects, one a line. It runs against nats-server and against liftlog alike.
//
//	jetstream -nats nats://127.0.0.1:4222 -stream ORDERS
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const deadline = 30 * time.Second

func main() {
	url := flag.String("nats", nats.DefaultURL, "where NATS listens")
	stream := flag.String("stream", "ORDERS", "the stream to make; it is deleted at the end")
	domain := flag.String("domain", "", "JetStream's domain, if the account has JetStream of its own")
	replicas := flag.Int("replicas", 1, "how many copies")
	flag.Parse()
	if err := run(*url, *stream, *domain, *replicas); err != nil {
		fmt.Fprintf(os.Stderr, "jetstream: %v\n", err)
		os.Exit(2)
	}
}

func run(url, stream, domain string, replicas int) error {
	connection, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	var js jetstream.JetStream
	if domain == "" {
		js, err = jetstream.New(connection)
	} else {
		js, err = jetstream.NewWithDomain(connection, domain)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := publishAndConsume(ctx, js, stream, replicas); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	if err := keepKeys(ctx, js, stream, replicas); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

func tell(what string, value any) error {
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"what": what, "value": value})
}

func publishAndConsume(ctx context.Context, js jetstream.JetStream, name string, replicas int) error {
	config := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Replicas: replicas}
	stream, err := js.CreateStream(ctx, config)
	if err != nil {
		return err
	}
	defer js.DeleteStream(ctx, name)
	var sequences []uint64
	for number := 1; number <= 5; number++ {
		ack, err := js.Publish(ctx, fmt.Sprintf("%s.%d", name, number%2), fmt.Appendf(nil, "%d", number))
		if err != nil {
			return err
		}
		sequences = append(sequences, ack.Sequence)
	}
	if err := tell("sequences", sequences); err != nil {
		return err
	}
	once := jetstream.WithMsgID("once")
	for range 2 {
		if _, err := js.Publish(ctx, name+".0", []byte("6"), once); err != nil {
			return err
		}
	}
	wanted := jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, wanted)
	if err != nil {
		return err
	}
	batch, err := consumer.Fetch(3, jetstream.FetchMaxWait(5*time.Second))
	if err != nil {
		return err
	}
	var fetched []string
	for message := range batch.Messages() {
		fetched = append(fetched, string(message.Data()))
		if err := message.DoubleAck(ctx); err != nil {
			return err
		}
	}
	if err := tell("fetched", fetched); err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(10))
	if err != nil {
		return err
	}
	var iterated []string
	for len(iterated) < 3 {
		message, err := messages.Next()
		if err != nil {
			return err
		}
		iterated = append(iterated, string(message.Data()))
		if err := message.DoubleAck(ctx); err != nil {
			return err
		}
	}
	messages.Stop()
	if err := tell("iterated", iterated); err != nil {
		return err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return err
	}
	if err := tell("left", []uint64{info.NumPending, uint64(info.NumAckPending)}); err != nil {
		return err
	}
	last, err := stream.GetLastMsgForSubject(ctx, name+".1")
	if err != nil {
		return err
	}
	return tell("last", []any{last.Sequence, string(last.Data)})
}

func keepKeys(ctx context.Context, js jetstream.JetStream, bucket string, replicas int) error {
	config := jetstream.KeyValueConfig{Bucket: bucket, History: 3, Replicas: replicas}
	keys, err := js.CreateKeyValue(ctx, config)
	if err != nil {
		return err
	}
	defer js.DeleteKeyValue(ctx, bucket)
	first, err := keys.Create(ctx, "colour", []byte("red"))
	if err != nil {
		return err
	}
	if _, err := keys.Update(ctx, "colour", []byte("blue"), first); err != nil {
		return err
	}
	_, err = keys.Update(ctx, "colour", []byte("green"), first)
	if err := tell("refused", err != nil); err != nil {
		return err
	}
	for _, key := range []string{"size", "gone"} {
		if _, err := keys.PutString(ctx, key, "9"); err != nil {
			return err
		}
	}
	if err := keys.Delete(ctx, "gone"); err != nil {
		return err
	}
	entry, err := keys.Get(ctx, "colour")
	if err != nil {
		return err
	}
	if err := tell("value", []any{string(entry.Value()), entry.Revision()}); err != nil {
		return err
	}
	found, err := keys.Keys(ctx)
	if err != nil {
		return err
	}
	sort.Strings(found)
	return tell("keys", found)
}
