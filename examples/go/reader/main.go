// Command reader prints the records of a stream, each as a line of JSON, in the order of each partition.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"liftlog.example/go/liftlog"
)

type options struct {
	stream, from string
	partition    int
	count        int
	follow       bool
}

// found is what one fetch of a partition brought, or why it ended; with neither it has come to its end.
type found struct {
	partition int
	records   []liftlog.Record
	err       error
}

func main() {
	var nodes []string
	url := flag.String("nats", "nats://127.0.0.1:4222", "URL of NATS, where nodes are found")
	flag.Func("node", "host:port of a node, in the place of NATS; more than once if you like", func(text string) error {
		nodes = append(nodes, text)
		return nil
	})
	cluster := flag.String("cluster", "liftlog", "name of the cluster")
	secret := flag.String("secret-file", "", "the clients' secret, or none; else LIFTLOG_CLIENT_SECRET_FILE, else your own")
	ca := flag.String("tls-ca", "", "speak TLS with nodes that show a certificate of this CA; else LIFTLOG_CLIENT_TLS_CA")
	versions := flag.String("versions", "2-3", "versions of the protocol to offer, lowest and highest")
	var o options
	flag.StringVar(&o.from, "from", "earliest", "earliest, latest, new, or an offset")
	flag.IntVar(&o.partition, "partition", -1, "only this one")
	flag.IntVar(&o.count, "count", 0, "stop after so many records; 0 = never")
	flag.BoolVar(&o.follow, "follow", false, "go on with what comes later")
	flag.Parse()
	if flag.NArg() != 1 {
		fail(errors.New("usage: reader [OPTIONS] STREAM; see reader -help"))
	}
	o.stream = flag.Arg(0)
	access, err := liftlog.NewAccess(*cluster, *secret, *ca)
	if err != nil {
		fail(err)
	}
	if access.Versions, err = parseVersions(*versions); err != nil {
		fail(err)
	}
	if err := run(*url, nodes, access, o); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "reader:", err)
	os.Exit(2)
}

func parseVersions(text string) (liftlog.Versions, error) {
	low, high, ranged := strings.Cut(text, "-")
	if !ranged {
		high = low
	}
	lowest, err := strconv.ParseUint(low, 10, 16)
	highest, err2 := strconv.ParseUint(high, 10, 16)
	if err != nil || err2 != nil || lowest < 2 || highest < lowest || highest > lowest+63 {
		return liftlog.Versions{}, fmt.Errorf("-versions %s: use LOWEST-HIGHEST, such as 2-3", text)
	}
	return liftlog.Versions{Lowest: uint16(lowest), Highest: uint16(highest)}, nil
}

func run(url string, nodes []string, access liftlog.Access, o options) error {
	cluster, err := liftlog.Connect(url, nodes, access)
	if err != nil {
		return err
	}
	defer cluster.Close()
	stream, err := cluster.Stream(o.stream, liftlog.ProgressTimeout)
	if err != nil {
		return err
	}
	if o.partition >= len(stream.Partitions) {
		return fmt.Errorf("stream '%s' has partitions 0 to %d, not %d", o.stream, len(stream.Partitions)-1, o.partition)
	}
	out, left := bufio.NewWriter(os.Stdout), o.count
	defer out.Flush()
	results := make(chan found, 16)
	reading := 0
	for index := range stream.Partitions {
		if o.partition < 0 || o.partition == index {
			reading++
			go read(cluster.Reader(stream, index), index, o, results)
		}
	}
	for reading > 0 {
		one := <-results
		if one.err != nil {
			return one.err
		}
		if one.records == nil {
			reading--
		}
		for _, record := range one.records {
			show(out, one.partition, record)
			if left--; left == 0 {
				return nil
			}
		}
		out.Flush()
	}
	return nil
}

// read a partition to its present end, or for ever.
func read(reader *liftlog.Reader, partition int, o options, results chan<- found) {
	end, err := int64(-1), error(nil)
	if !o.follow {
		end, err = reader.Offset("new")
	}
	if err == nil {
		reader.Position, err = first(reader, o.from)
	}
	for err == nil && (o.follow || reader.Position < end) {
		var records []liftlog.Record
		if records, err = reader.Fetch(); err == nil {
			for at, record := range records {
				if !o.follow && record.Offset >= end {
					records = records[:at]
					break
				}
			}
			if len(records) > 0 {
				results <- found{partition, records, nil}
			}
		}
	}
	results <- found{partition, nil, err}
}

func first(reader *liftlog.Reader, from string) (int64, error) {
	if from == "earliest" {
		reader.MindDeletions()
	}
	if from == "earliest" || from == "latest" || from == "new" {
		return reader.Offset(from)
	}
	offset, err := strconv.ParseInt(from, 10, 64)
	if err != nil || offset < 0 {
		return 0, fmt.Errorf("-from %s is not understood; use earliest, latest, new, or an offset", from)
	}
	return offset, nil
}

// show prints the record as `liftlog sub --json` does.
func show(out *bufio.Writer, partition int, record liftlog.Record) {
	line := map[string]any{
		"partition":    partition,
		"offset":       record.Offset,
		"timestamp_ms": record.TimestampMs,
		"subject":      string(record.Subject),
		"value":        nil,
	}
	if len(record.Headers) > 0 {
		line["headers"] = string(record.Headers)
	}
	if record.Key != nil {
		line["key"] = string(record.Key)
	}
	if record.Value != nil {
		line["value"] = string(record.Value)
		if !utf8.Valid(record.Value) {
			delete(line, "value")
			line["value_base64"] = record.Value // which JSON shows so
		}
	}
	text, _ := json.Marshal(line)
	out.Write(append(text, '\n'))
}
