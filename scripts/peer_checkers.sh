#!/bin/sh
# Runs Porcupine (Go) on the same generated histories as `liftlog jepsen check`, and prints both answers.
#
#     scripts/peer_checkers.sh [OPERATIONS ...]        default: 1000 10000
#
# Needs Go and the Go module proxy. Knossos and Elle are published on Clojars only, which this script does not
# use. Everything is built and kept in store/peers.
set -eu

cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 1000 10000
PORCUPINE=v1.3.1
TIMEOUT_SECONDS=60
home=store/peers
mkdir -p "$home/porcupine"
command -v go >/dev/null || { echo "peer_checkers: Go is not installed" >&2; exit 2; }

cat >"$home/porcupine/main.go" <<'EOF'
// Checks histories of one register or one queue, as Jepsen's EDN, with Porcupine.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

type input struct {
	f     string
	value int
}

const nothing = -1 << 62

func step(model string) func(state, in, out interface{}) (bool, interface{}) {
	if model == "register" {
		return func(state, in, out interface{}) (bool, interface{}) {
			i := in.(input)
			if i.f == "write" {
				return true, i.value
			}
			return out == nil || out.(int) == nothing || out.(int) == state.(int), state
		}
	}
	return func(state, in, out interface{}) (bool, interface{}) {
		i, queue := in.(input), state.(string)
		if i.f == "enqueue" {
			return true, queue + strconv.Itoa(i.value) + ","
		}
		if out == nil {
			return true, state
		}
		if out.(int) == nothing {
			return queue == "", state
		}
		head := strconv.Itoa(out.(int)) + ","
		if len(queue) < len(head) || queue[:len(head)] != head {
			return false, state
		}
		return true, queue[len(head):]
	}
}

var cell = regexp.MustCompile(`:(process|type|f|value) :?([a-z0-9-]+)`)

func read(path string) []porcupine.Operation {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	var found []porcupine.Operation
	open := map[string]int{}
	lines := bufio.NewScanner(file)
	now := int64(0)
	for lines.Scan() {
		now++
		at := map[string]string{}
		for _, each := range cell.FindAllStringSubmatch(lines.Text(), -1) {
			at[each[1]] = each[2]
		}
		value := nothing
		if number, err := strconv.Atoi(at["value"]); err == nil {
			value = number
		}
		process := at["process"]
		client, _ := strconv.Atoi(process)
		switch at["type"] {
		case "invoke":
			open[process] = len(found)
			found = append(found, porcupine.Operation{
				ClientId: client, Input: input{at["f"], value}, Call: now, Output: nil, Return: 1 << 60})
		case "ok":
			found[open[process]].Output, found[open[process]].Return = value, now
		case "fail":
			found[open[process]].ClientId = -1
		}
	}
	kept := found[:0]
	for _, each := range found {
		// What failed did not happen; a read or dequeue that nobody heard of says nothing.
		if each.ClientId >= 0 && (each.Output != nil || each.Input.(input).value != nothing) {
			kept = append(kept, each)
		}
	}
	return kept
}

func main() {
	model, path := os.Args[1], os.Args[2]
	seconds, _ := strconv.Atoi(os.Args[3])
	operations := read(path)
	start := interface{}(0)
	if model == "queue" {
		start = ""
	}
	began := time.Now()
	answer := porcupine.CheckOperationsTimeout(porcupine.Model{
		Init: func() interface{} { return start },
		Step: step(model),
	}, operations, time.Duration(seconds)*time.Second)
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	text, _ := json.Marshal(map[string]interface{}{
		"checker": "porcupine", "file": path, "model": model, "verdict": fmt.Sprint(answer),
		"operations": len(operations), "seconds": time.Since(began).Seconds(),
		"cpu_seconds": float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9, "peak_mib": usage.Maxrss / 1024})
	fmt.Println(string(text))
}
EOF
(
    cd "$home/porcupine"
    [ -f go.mod ] || go mod init peer >/dev/null 2>&1
    go get "github.com/anishathalye/porcupine@$PORCUPINE" >/dev/null 2>&1 || {
        echo "peer_checkers: cannot get Porcupine $PORCUPINE through the Go module proxy" >&2
        exit 2
    }
    go build -o porcupine .
)

liftlog=.venv/bin/liftlog
for model in register queue; do
    files=
    for operations in "$@"; do
        for anomaly in "" nonlinearizable; do
            file="$home/$model-$operations${anomaly:+-bad}.edn"
            [ -f "$file" ] ||
                "$liftlog" jepsen generate "$file" --family "$model" --operations "$operations" \
                    ${anomaly:+--plant $anomaly} >/dev/null
            "$home/porcupine/porcupine" "$model" "$file" "$TIMEOUT_SECONDS"
            files="$files $file"
        done
    done
    # shellcheck disable=SC2086  # several files
    "$liftlog" jepsen check --format edn-lines --model "$model" --json $files || [ $? -eq 1 ]
done
