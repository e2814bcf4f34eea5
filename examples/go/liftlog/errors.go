// Package liftlog is a small client of liftlog, written from docs/wire.md.
package liftlog

import (
	"errors"
	"fmt"
	"time"
)

// The time-outs of docs/wire.md.
const (
	ConnectTimeout  = 3 * time.Second
	AttemptTimeout  = 3 * time.Second
	ProgressTimeout = 12 * time.Second
	RetryPause      = 100 * time.Millisecond
)

// Refused is an ErrorReply, or the "error" of an answer over NATS.
type Refused struct {
	Code, Description string
	Retryable         bool
	Leader            int
}

func (r *Refused) Error() string { return r.Description }

// Unreachable says that NATS or a node did not answer; another one, or the same one later, may.
type Unreachable struct{ Text string }

func (u *Unreachable) Error() string { return u.Text }

func unreachable(format string, values ...any) error {
	return &Unreachable{fmt.Sprintf(format, values...)}
}

// mayRetry says whether an error lets another node, or a later try, succeed; and whom to ask next, 0 = nobody.
func mayRetry(err error) (retry bool, leader int) {
	var refused *Refused
	if errors.As(err, &refused) {
		return refused.Retryable, refused.Leader
	}
	var away *Unreachable
	return errors.As(err, &away), 0
}

// insist calls attempt until it succeeds, fails for good, or the time is up.
func insist(limit time.Duration, attempt func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		if again, _ := mayRetry(err); !again || time.Now().Add(RetryPause).After(deadline) {
			return err
		}
		time.Sleep(RetryPause)
	}
}
